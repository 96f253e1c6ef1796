"""What the processes export is in the form that Prometheus wants."""

import subprocess

import pytest


@pytest.mark.parametrize("role", ["router", "prefill-0", "decode-0"])
def test_metrics_pass_promtool(shared_cluster, role):
    client = shared_cluster.client()
    client.completions.create(model=shared_cluster.model_name, prompt="some words", max_tokens=4)
    (process,) = [p for p in shared_cluster.processes if p.name == role]
    result = subprocess.run(["promtool", "check", "metrics"], input=process.metrics().text,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
