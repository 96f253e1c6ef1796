"""Debian's Prometheus as a child of the test: it scrapes a Cluster and answers queries."""

import json
import pathlib
import subprocess
import urllib.parse

import yaml

from cluster import ROOT, free_ports, http_get, wait_until

NAMESPACE = "test"
RULES = ROOT / "k8s" / "rules" / "anchorage.rules.yml"


class Prometheus:
    """Scrapes each process of `cluster` every second, with the labels that Kubernetes would add."""

    def __init__(self, cluster, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.cluster = cluster
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{
                "job_name": "anchorage",
                "static_configs": [{"targets": [process.admin],
                                    "labels": {"namespace": NAMESPACE, "pod": process.name}}
                                   for process in cluster.processes],
            }],
        }
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.argv = ["prometheus", f"--config.file={self.folder / 'prometheus.yml'}",
                     f"--storage.tsdb.path={self.folder / 'data'}",
                     f"--web.listen-address=127.0.0.1:{port}"]
        self.popen = None

    def __enter__(self):
        with open(self.folder / "prometheus.log", "wb") as log:
            self.popen = subprocess.Popen(self.argv, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: http_get(f"{self.url}/-/ready")[0] == 200, 30, "Prometheus is ready")
            wait_until(self.all_targets_up, 30, "Prometheus scrapes every process")
        except TimeoutError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.popen.terminate()
        self.popen.wait(30)

    def all_targets_up(self):
        up = self.query("up == 1")
        return {sample["metric"]["pod"] for sample in up} == {p.name for p in self.cluster.processes}

    def query(self, expression):
        """The samples of an instant query; an assertion with Prometheus' words when it refuses."""
        form = urllib.parse.urlencode({"query": expression})
        status, body = http_get(f"{self.url}/api/v1/query?{form}")
        assert status == 200, f"{expression}\n{body}"
        return json.loads(body)["data"]["result"]
