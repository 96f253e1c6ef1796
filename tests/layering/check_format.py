#!/usr/bin/python3
"""Every source file is formatted as .clang-format says."""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

import sources


def complaints(clang_format, root, files):
    command = [clang_format, "--style=file", "--dry-run", "-Werror", *map(str, files)]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def self_test(clang_format):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        shutil.copy(sources.ROOT / ".clang-format", root)
        (root / "tidy.cc").write_text("int main() { return 0; }\n")
        (root / "untidy.cc").write_text("int main()\n{\nreturn 0 ;\n}\n")
        assert not complaints(clang_format, root, ["tidy.cc"])
        assert "untidy.cc" in complaints(clang_format, root, ["untidy.cc"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clang-format", required=True)
    args = parser.parse_args()
    self_test(args.clang_format)
    text = complaints(args.clang_format, sources.ROOT, sources.code_files())
    sys.exit(f"{text}\nRun: git ls-files '*.h' '*.cc' | xargs clang-format-14 -i" if text else 0)


if __name__ == "__main__":
    main()
