"""Every expression of the Grafana dashboards, asked of a Prometheus that scrapes a busy service."""

import concurrent.futures
import json
import math
import re
import time

import pytest

from cluster import ROOT
from prometheus import Prometheus

DASHBOARDS = sorted((ROOT / "k8s" / "dashboards").glob("*.json"))
SECONDS_OF_LOAD = 12
GRAFANA_VARIABLES = {"$__rate_interval": "10s", "$namespace": ".*", "$pod": ".*"}


def expressions():
    """(dashboard, panel, expression) of every query."""
    return [(path.stem, panel["title"], target["expr"])
            for path in DASHBOARDS
            for panel in json.loads(path.read_text())["panels"]
            for target in panel["targets"]]


def without_variables(expression):
    for name, value in GRAFANA_VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, f"unknown variable in {expression}"
    return expression


def keep_busy(cluster, until):
    """Two clients that stream, one after another, until the given time."""
    def one_client(number):
        client, done = cluster.client(), 0
        while time.monotonic() < until:
            text = f"client {number} asks for the {done}th time " + "about the river " * 40
            stream = client.completions.create(model=cluster.model_name, prompt=text, max_tokens=24,
                                               stream=True)
            assert list(stream)[-1].choices[0].finish_reason
            done += 1
        return done

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return sum(pool.map(one_client, range(2)))


@pytest.fixture(scope="module")
def prometheus(shared_cluster, tmp_path_factory):
    """A Prometheus that has watched the service under load, and still does."""
    with Prometheus(shared_cluster, tmp_path_factory.mktemp("prometheus")) as server:
        assert keep_busy(shared_cluster, time.monotonic() + SECONDS_OF_LOAD) > 0
        time.sleep(2)  # one more scrape and one more evaluation of the rules
        yield server


@pytest.fixture(scope="module")
def answers(prometheus):
    """Of every query, asked at once after the load, while rates still see it."""
    return {expression: prometheus.query(without_variables(expression))
            for _, _, expression in expressions()}


@pytest.mark.parametrize("dashboard,panel,expression", expressions())
def test_query_finds_numbers(answers, dashboard, panel, expression):
    samples = answers[expression]
    assert samples, "the query finds nothing"
    values = [float(sample["value"][1]) for sample in samples]
    assert any(math.isfinite(value) for value in values), f"{values}"


@pytest.mark.parametrize("dashboard,panel,expression", expressions())
def test_query_names_only_metrics_that_are_exported(shared_cluster, dashboard, panel, expression):
    exported = set().union(*(process.metrics().names() for process in shared_cluster.processes))
    for name in re.findall(r"\banchorage_\w+", expression):
        assert name in exported or re.sub(r"_(bucket|sum|count)$", "", name) in exported


def value_of(prometheus, expression):
    (sample,) = prometheus.query(expression)
    return float(sample["value"][1])


def test_recorded_compression_is_that_of_the_counters(prometheus):
    sent = value_of(prometheus, 'sum(anchorage_kv_transfer_bytes_total{direction="tx"})')
    full = value_of(prometheus, 'sum(anchorage_kv_transfer_uncompressed_bytes_total{direction="tx"})')
    recorded = value_of(prometheus, "pd:kv_compression:ratio_rate5m")
    assert full > sent > 0
    # All requests have one length, so the ratio over any span of time is that of the totals.
    assert recorded == pytest.approx(full / sent, rel=0.05)


def test_every_byte_that_is_sent_is_received(prometheus):
    sent = value_of(prometheus, 'sum(anchorage_kv_transfer_bytes_total{direction="tx"})')
    received = value_of(prometheus, 'sum(anchorage_kv_transfer_bytes_total{direction="rx"})')
    assert sent == received > 0


def test_decode_memory_adds_up_to_its_limit(prometheus):
    limit = value_of(prometheus, "sum(anchorage_decode_memory_limit_bytes)")
    parts = value_of(prometheus, "sum(anchorage_decode_memory_used_bytes) + "
                                 "sum(anchorage_decode_memory_reserved_bytes) + "
                                 "sum(anchorage_decode_memory_headroom_bytes)")
    assert parts == limit


def test_dashboards_have_fixed_ids_and_units():
    ids = [json.loads(path.read_text())["uid"] for path in DASHBOARDS]
    assert sorted(ids) == ["anchorage-concurrency", "anchorage-transfer"]
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            unit = (panel["options"]["yAxis"]["unit"] if panel["type"] == "heatmap"
                    else panel["fieldConfig"]["defaults"]["unit"])
            assert unit in {"Bps", "bytes", "none", "ops", "percentunit", "reqps", "s"}
