"""The manifests of k8s/, rendered as `kubectl apply -k` would."""

import os
import pathlib
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD_DIR = pathlib.Path(os.environ.get("ANCHORAGE_BUILD_DIR", ROOT / "build"))
KUSTOMIZATIONS = ["base", "dashboards", "rules"]


def run_tool(*command):
    """What the program printed; an assertion with it when the program failed."""
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}"
    return result.stdout


def render(kustomization):
    text = run_tool("kubectl", "kustomize", str(ROOT / "k8s" / kustomization))
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(documents, kind):
    return {document["metadata"]["name"]: document for document in documents
            if document["kind"] == kind}
