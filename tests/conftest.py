"""For all Python tests: the programs that scripts/setup.sh --tests unpacked are on PATH."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ["PATH"] += f":{ROOT / '.cache' / 'debian' / 'usr' / 'bin'}:/usr/sbin"
