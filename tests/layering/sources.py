"""The files of the repository, as the source tests see them."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE_SUFFIXES = {".h", ".cc", ".cuh", ".cu"}


def repository_files(root=ROOT):
    """Every file that is tracked, or new and not ignored, relative to `root`."""
    command = ["git", "-C", str(root), "-c", f"safe.directory={root}",
               "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({pathlib.PurePath(name) for name in names if name and (root / name).is_file()})


def code_files(root=ROOT):
    return [path for path in repository_files(root) if path.suffix in CODE_SUFFIXES]
