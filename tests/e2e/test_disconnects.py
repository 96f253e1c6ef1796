"""A client that leaves, in whichever stage its request is, leaves nothing behind; and an overload ends
in refusals and a service that works again."""

import asyncio
import collections
import contextlib
import json
import socket

from cluster import wait_until
from load import complete, run_all
from test_lifecycle import leftovers


@contextlib.contextmanager
def connection(cluster):
    """A socket to the router that is closed at the end, whatever was sent."""
    host, port = cluster.address.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        yield client


def post(client, payload, share=1.0):
    """Sends that share of a POST."""
    body = json.dumps({"temperature": 0, "ignore_eos": True, **payload}).encode()
    head = (b"POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body))
    client.sendall(head + body[:int(len(body) * share)])


def disconnects(cluster, stage):
    return cluster.router.metrics().value("anchorage_client_disconnects_total", stage=stage)


def served_from_no_queue(cluster):
    """One request is in flight and has its memory: the router's own word, of one moment."""
    metrics = cluster.router.metrics()
    return (metrics.value("anchorage_requests_in_flight") == 1
            and metrics.value("anchorage_queue_depth") == 0)


def expect_left(cluster, stage):
    wait_until(lambda: disconnects(cluster, stage) == 1, 10, f"a disconnect in stage {stage}")


def test_leaving_in_every_stage_leaves_nothing_behind(start_cluster):
    cluster = start_cluster(kv_memory="20MiB")
    router, (decode,) = cluster.router, cluster.decodes
    almost_all = {"prompt": [260] * 100, "max_tokens": 8000, "stream": True}

    with connection(cluster) as client:
        post(client, almost_all, share=0.5)

    with connection(cluster) as client:
        post(client, {"prompt": [260] * 8000, "max_tokens": 100})
        wait_until(lambda: served_from_no_queue(cluster), 10, "it is being prefilled")
    expect_left(cluster, "prefill")

    with connection(cluster) as client:
        post(client, almost_all)
        assert client.recv(1), "the stream has begun"
        with connection(cluster) as second:
            post(second, almost_all)
            wait_until(lambda: router.metrics().value("anchorage_queue_depth") == 1, 10,
                       "another waits for memory")
        expect_left(cluster, "queue")
        assert decode.metrics().value("anchorage_decode_active_sequences") == 1
    expect_left(cluster, "decode")
    wait_until(lambda: not leftovers(cluster), 10, lambda: f"nothing is left: {leftovers(cluster)}")


def test_ten_times_too_much_is_refused_and_the_service_recovers(start_cluster):
    cluster = start_cluster(kv_memory="4MiB", router_flags=["--queue-size", "16"])
    payload = {"prompt": [260] * 300, "max_tokens": 40, "temperature": 0, "ignore_eos": True}
    jobs = (complete(cluster.address, {**payload, "stream": index % 2 == 0})
            for index in range(200))
    outcomes = asyncio.run(run_all(jobs, 200))
    states = collections.Counter(outcome.terminal_state() for outcome in outcomes)
    assert set(states) == {"finished", "failed"} and states["finished"] >= 16, states
    assert {o.status for o in outcomes if o.terminal_state() == "failed"} <= {429, 503}
    (after,) = asyncio.run(run_all([complete(cluster.address, payload)], 1))
    assert after.terminal_state() == "finished"
    wait_until(lambda: not leftovers(cluster), 10, lambda: f"nothing is left: {leftovers(cluster)}")
