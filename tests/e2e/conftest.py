"""Fixtures of the end-to-end tests. Every test gets real processes on free loopback ports."""

import pytest

from cluster import Cluster


@pytest.fixture
def start_cluster(tiny_model, tmp_path):
    """start_cluster(**options of Cluster): a running service of the tiny model, or of `model`.

    At the end of a passed test each process must stop cleanly; see Cluster. A test that wants to
    look at the service after it has stopped uses Cluster itself.
    """
    clusters = []

    def start(model=tiny_model, **options):
        cluster = Cluster(model, tmp_path / f"cluster-{len(clusters)}", **options)
        clusters.append(cluster)
        return cluster.start()

    yield start
    try:
        for cluster in clusters:
            print(cluster.log_tails())  # shown by pytest only when the test failed
            cluster.close()
    finally:
        for cluster in clusters:
            cluster.kill()


@pytest.fixture(scope="module")
def shared_cluster(tiny_model, tmp_path_factory):
    """A 1x1 service over tcp, for tests that only talk to it and leave no trace."""
    with Cluster(tiny_model, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
