"""What the processes export is in the form that Prometheus wants."""

import subprocess

import pytest

from cluster import wait_until

# By role, without the prefix `anchorage_`. Also before the first event: an alert on a counter that
# appears only when it counts misses the first time.
ALL = {"build_info", "config_info", "queue_depth", "queue_wait_seconds", "stage_duration_seconds"}
WORKERS = {
    "kv_transfer_bytes_total", "kv_transfer_uncompressed_bytes_total", "kv_transfer_size_bytes",
    "kv_transfer_duration_seconds", "kv_transfer_busy_seconds_total",
    "kv_transfer_exposed_seconds_total", "kv_transfers_total", "kv_transfers_in_flight",
    "kv_transfer_failures_total", "kv_codec_duration_seconds",
    "engine_last_step_timestamp_seconds"}
EXPORTED = {
    "router": ALL | {
        "requests_total", "request_errors_total", "client_disconnects_total", "requests_in_flight",
        "prefill_queued_tokens", "time_to_first_token_seconds", "inter_token_latency_seconds",
        "time_per_output_token_seconds", "request_duration_seconds", "prompt_tokens_total",
        "generation_tokens_total", "request_prompt_tokens", "request_generation_tokens",
        "routing_decisions_total", "admission_rejections_total", "workers",
        "router_waiting_kv_bytes", "router_held_kv_bytes"},
    "prefill": ALL | WORKERS | {
        "prefill_queued_tokens", "prefill_running_requests", "prefill_memory_peak_bytes",
        "prefill_kv_held_bytes", "prefill_kv_lease_expirations_total", "kv_compression_ratio"},
    "decode": ALL | WORKERS | {
        "admission_rejections_total", "kv_integrity_failures_total", "decode_memory_limit_bytes",
        "decode_memory_used_bytes", "decode_memory_reserved_bytes",
        "decode_memory_headroom_bytes", "quarantined_bytes", "decode_kv_usage_ratio",
        "decode_active_sequences", "decode_sequence_capacity", "decode_waiting_requests",
        "decode_batch_size", "inter_token_latency_seconds", "time_per_output_token_seconds"},
}


def test_every_metric_is_exported_after_one_request(start_cluster):
    cluster = start_cluster()
    cluster.client().completions.create(model=cluster.model_name, prompt="words", max_tokens=4)
    for process in cluster.processes:
        expected = {f"anchorage_{name}" for name in EXPORTED[process.role]}
        assert expected <= process.metrics().names(), process.name


def test_a_decode_node_measures_each_request_once(start_cluster):
    cluster = start_cluster()
    cluster.client().completions.create(model=cluster.model_name, prompt="words", max_tokens=4,
                                        extra_body={"ignore_eos": True})
    (decode,) = cluster.decodes

    def count(name, **labels):
        return decode.metrics().value(f"anchorage_{name}_seconds_count", **labels)

    # The last of them is measured when the last token has been sent.
    wait_until(lambda: count("time_per_output_token", role="decode") == 1, 10, "the request is over")
    assert count("queue_wait", role="decode", stage="decode") == 1
    assert count("inter_token_latency", role="decode") == 3


@pytest.mark.parametrize("role", ["router", "prefill-0", "decode-0"])
def test_metrics_pass_promtool(shared_cluster, role):
    client = shared_cluster.client()
    client.completions.create(model=shared_cluster.model_name, prompt="some words", max_tokens=4)
    (process,) = [p for p in shared_cluster.processes if p.name == role]
    result = subprocess.run(["promtool", "check", "metrics"], input=process.metrics().text,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
