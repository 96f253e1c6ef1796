"""Processes are killed at random points: clients learn of it, the others lose nothing, and a process
that is started again is part of the service by itself."""

import asyncio
import random
import signal
import time

import pytest

from cluster import http_get, wait_until
from load import complete, run_all
from test_lifecycle import leftovers

ROUNDS = 4


async def load_until_killed(cluster, victim, delay, rng):
    """Some requests in flight; `victim` is killed after `delay` seconds."""
    payloads = [{"prompt": [rng.randrange(3, 512) for _ in range(rng.choice([5, 300, 2000]))],
                 "max_tokens": 60, "temperature": 0, "ignore_eos": True, "stream": True}
                for _ in range(16)]
    load = asyncio.ensure_future(
        run_all((complete(cluster.address, payload) for payload in payloads), 16))
    await asyncio.sleep(delay)
    victim.kill()
    return await load


@pytest.mark.parametrize("role", ["router", "prefill-0", "decode-0"])
@pytest.mark.parametrize("transport", ["tcp", "ucx"])
def test_kill_and_restart(start_cluster, transport, role):
    cluster = start_cluster(transport=transport)
    (victim,) = [p for p in cluster.processes if p.name == role]
    survivors = [p for p in cluster.processes if p is not victim]
    rng = random.Random(role + transport)
    cut_short = 0
    for _ in range(ROUNDS):
        outcomes = asyncio.run(load_until_killed(cluster, victim, rng.uniform(0.0, 0.6), rng))
        for outcome in outcomes:
            state = outcome.terminal_state()  # never a clean end without finish_reason
            assert state in ("finished", "failed", "cut"), outcome
            assert state != "cut" or role == "router", outcome
            cut_short += state != "finished"
        assert all(p.alive() for p in survivors)
        victim.start()
        cluster.wait_ready()
        (again,) = asyncio.run(run_all(
            [complete(cluster.address, {"prompt": "again", "max_tokens": 4})], 1))
        assert again.terminal_state() == "finished", again
        wait_until(lambda: not leftovers(cluster), 30,
                   lambda: f"the survivors lost nothing: {leftovers(cluster)}")
    assert cut_short > 0, "no round hit a running request"


def test_a_stalled_decode_node_is_noticed_and_its_memory_comes_back(start_cluster):
    cluster = start_cluster(router_flags=["--queue-timeout", "3s"])
    (decode,) = cluster.decodes

    async def stall():
        load = asyncio.ensure_future(run_all(
            (complete(cluster.address, {"prompt": [5] * 3000, "max_tokens": 50, "stream": True,
                                        "ignore_eos": True}) for _ in range(4)), 4))
        await asyncio.sleep(0.3)
        decode.signal(signal.SIGSTOP)
        return await load

    begin = time.monotonic()
    outcomes = asyncio.run(stall())
    assert time.monotonic() - begin < 15, "a silent peer is lost after three heartbeats"
    assert {outcome.terminal_state() for outcome in outcomes} <= {"failed", "finished"}
    decode.signal(signal.SIGCONT)
    cluster.wait_ready()
    wait_until(lambda: not leftovers(cluster), 30,
               lambda: f"everything came back: {leftovers(cluster)}")


def test_sigterm_finishes_what_runs(start_cluster):
    cluster = start_cluster()

    async def drain():
        load = asyncio.ensure_future(run_all(
            (complete(cluster.address, {"prompt": [5] * 500, "max_tokens": 100, "stream": True,
                                        "ignore_eos": True}) for _ in range(4)), 4))
        await asyncio.sleep(0.3)
        cluster.router.signal(signal.SIGTERM)
        return await load

    outcomes = asyncio.run(drain())
    assert [outcome.terminal_state() for outcome in outcomes] == ["finished"] * 4
    assert cluster.router.popen.wait(20) == 0
    assert http_get(f"{cluster.url}/ready")[0] == 0
    cluster.router.popen = None  # it has ended as it should
