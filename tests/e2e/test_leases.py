"""The lease on a request's memory outlives a layer that computes for longer than it."""

import time


def test_a_layer_may_take_longer_than_the_lease(start_cluster, make_tiny_model):
    # One layer of this model takes seconds over a prompt of this length; the lease is a fraction of one.
    model = make_tiny_model("--layers", "2", "--heads", "16", "--kv-heads", "8")
    lease_seconds = 0.2
    cluster = start_cluster(model=model, decode_flags=["--lease", f"{lease_seconds}s"])
    begin = time.monotonic()
    answer = cluster.client().completions.create(
        model=cluster.model_name, prompt=[5 + i % 500 for i in range(8000)], max_tokens=4,
        temperature=0, extra_body={"ignore_eos": True})
    layer_seconds = (time.monotonic() - begin) / 2
    assert answer.usage.completion_tokens == 4
    assert layer_seconds > 2 * lease_seconds, f"a layer took {layer_seconds} s: it proves nothing"
