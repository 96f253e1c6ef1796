"""For all Python tests: tiny models, and the programs that scripts/setup.sh --tests unpacked on PATH."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ["PATH"] += f":{ROOT / '.cache' / 'debian' / 'usr' / 'bin'}:/usr/sbin"


@pytest.fixture(scope="session")
def make_tiny_model(tmp_path_factory):
    """make_tiny_model(*flags): path of a tiny model, made once for the same flags."""
    made = {}

    def make(*flags):
        if flags not in made:
            path = tmp_path_factory.mktemp("model") / "tiny.gguf"
            subprocess.run([ROOT / "scripts" / "make_tiny_model", *flags, path], check=True)
            made[flags] = path
        return made[flags]

    return make


@pytest.fixture(scope="session")
def tiny_model(make_tiny_model):
    return make_tiny_model()
