"""The router finds its workers by name, and their state is in its metrics."""

from cluster import wait_until

INTERVAL = ["--resolve-interval", "100ms"]


def workers(cluster, state):
    return cluster.router.metrics().value("anchorage_workers", role="decode", state=state)


def test_workers_are_dialled_by_name_and_found_again(start_cluster):
    cluster = start_cluster(decode=2, dial_host="localhost", router_flags=INTERVAL)
    wait_until(lambda: workers(cluster, "ready") == 2, 10, "both decode nodes are there")
    assert workers(cluster, "down") == 0
    assert "decode node at 127.0.0.1:" in cluster.router.log()
    cluster.decodes[0].kill()
    wait_until(lambda: (workers(cluster, "ready"), workers(cluster, "down")) == (1, 1), 10,
               "one decode node is down")
    cluster.decodes[0].start()
    wait_until(lambda: (workers(cluster, "ready"), workers(cluster, "down")) == (2, 0), 10,
               "it is back")
    answer = cluster.client().completions.create(model=cluster.model_name, prompt="again",
                                                 max_tokens=4)
    assert answer.choices[0].finish_reason


def test_a_name_of_nobody_is_a_node_that_is_down(start_cluster):
    cluster = start_cluster(router_flags=INTERVAL)
    (position,) = [i for i, flag in enumerate(cluster.router.argv) if flag == "--decode"]
    cluster.router.terminate()
    cluster.router.argv[position + 1] += ",no-such-host.invalid:7100"
    cluster.router.start()
    cluster.wait_ready()
    assert workers(cluster, "down") == 1
    assert "no-such-host.invalid" in cluster.router.log()
