"""2,000 mixed requests: each ends in exactly one terminal state, and afterwards nothing is left."""

import asyncio
import collections
import random
import statistics

import pytest

from cluster import wait_until
from load import complete, run_all

ROUNDS = 10
REQUESTS_PER_ROUND = 200
CONTEXT = 8192


def mixed_request(rng, address):
    """A coroutine of one request and the terminal states in which it may end."""
    kind = rng.random()
    prompt = [rng.randrange(3, 512) for _ in range(rng.choice([1, 5, 40, 200, 500]))]
    payload = {"prompt": prompt, "max_tokens": rng.randrange(1, 12), "temperature": 0,
               "stream": rng.random() < 0.5, "ignore_eos": rng.random() < 0.5}
    if kind < 0.60:
        return complete(address, payload), {"finished"}
    if kind < 0.80:
        payload["max_tokens"] = 200
        payload["ignore_eos"] = True
        return complete(address, payload, leave_after=rng.choice([0, 1, 600, 2000])), {"left"}
    if kind < 0.90:
        bad = rng.choice([b"{", b"[]", b'{"prompt": 7}', b'{"prompt": "a", "max_tokens": -1}',
                          b'{"prompt": "a", "temperature": "hot"}', b'{"prompt": [512]}'])
        return complete(address, bad), {"failed"}
    if kind < 0.95:
        return complete(address, {"prompt": [3] * (CONTEXT + 1), "max_tokens": 1}), {"failed"}
    # More memory than the decode nodes have, however long it waits.
    return complete(address, {"prompt": prompt, "max_tokens": 4000}), {"failed"}


def leftovers(cluster):
    """Everything that should be zero when nobody is served, by process and metric; {} when it is."""
    zero = {
        "router": ["anchorage_requests_in_flight", "anchorage_router_waiting_kv_bytes",
                   "anchorage_router_held_kv_bytes", "anchorage_queue_depth"],
        "prefill": ["anchorage_prefill_running_requests", "anchorage_prefill_queued_tokens",
                    "anchorage_prefill_kv_held_bytes", "anchorage_queue_depth",
                    "anchorage_kv_transfers_in_flight"],
        "decode": ["anchorage_decode_memory_used_bytes", "anchorage_decode_memory_reserved_bytes",
                   "anchorage_quarantined_bytes", "anchorage_decode_active_sequences",
                   "anchorage_decode_waiting_requests", "anchorage_kv_transfers_in_flight"],
    }
    left = {}
    for process in cluster.processes:
        metrics = process.metrics()
        for name in zero[process.role]:
            assert name in metrics.names(), f"{process.name} does not export {name}"
            if metrics.value(name) != 0:
                left[process.name, name] = metrics.value(name)
    return left


def serve_mixed(cluster, seed, count):
    rng = random.Random(seed)
    jobs = [mixed_request(rng, cluster.address) for _ in range(count)]
    outcomes = asyncio.run(run_all((job for job, _ in jobs), concurrency=32))
    states = collections.Counter()
    for outcome, (_, allowed) in zip(outcomes, jobs):
        state = outcome.terminal_state()
        assert state in allowed, outcome
        if state == "failed":
            assert outcome.status == 400, outcome
        states[state] += 1
    wait_until(lambda: not leftovers(cluster), 20, lambda: f"nothing is left: {leftovers(cluster)}")
    return states


def growth(samples):
    """From the first to the second half, by the median of each: what the allocator holds back for a
    while comes and goes by megabytes, up and down."""
    half = len(samples) // 2
    return statistics.median(samples[half:]) - statistics.median(samples[:half])


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("transport", ["tcp", "ucx"])
def test_mixed_requests_leave_nothing_behind(start_cluster, transport, nodes):
    cluster = start_cluster(transport=transport, prefill=nodes, decode=nodes, kv_memory="4MiB",
                            router_flags=["--queue-size", "1000"])
    # Connections and pools are made now, by each of the nodes.
    serve_mixed(cluster, seed=1, count=2 * REQUESTS_PER_ROUND * nodes)
    threads = {p.name: p.num_threads() for p in cluster.processes}
    descriptors = {p.name: p.num_descriptors() for p in cluster.processes}
    states = collections.Counter()
    memory = {p.name: [] for p in cluster.processes}
    for seed in range(2, 2 + ROUNDS):
        states += serve_mixed(cluster, seed, REQUESTS_PER_ROUND)
        for process in cluster.processes:
            memory[process.name].append(process.resident_bytes())

    assert states.total() == ROUNDS * REQUESTS_PER_ROUND and min(states.values()) > 100, states
    for process in cluster.processes:
        assert process.num_threads() == threads[process.name], process.name
        wait_until(lambda: process.num_descriptors() <= descriptors[process.name], 10,
                   f"{process.name} has its descriptors back")
        grown = growth(memory[process.name])
        assert grown < 6 << 20, f"{process.name} grew by {grown} bytes: {memory[process.name]}"
    router = cluster.router.metrics()
    planned = sum(d.metrics().value("anchorage_kv_transfer_bytes_total") for d in cluster.decodes)
    sent = sum(p.metrics().value("anchorage_kv_transfer_bytes_total") for p in cluster.prefills)
    assert sent == planned > 0, "what was sent is what landed"
    assert router.value("anchorage_requests_total") >= states.total() - states["left"]
