#!/usr/bin/python3
"""Every source file is formatted as .clang-format says."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import sources

CLANG_FORMAT = "clang-format-14"


def complaints(root, files):
    command = [CLANG_FORMAT, "--style=file", "--dry-run", "-Werror", *map(str, files)]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        shutil.copy(sources.ROOT / ".clang-format", root)
        (root / "tidy.cc").write_text("int main() { return 0; }\n")
        (root / "untidy.cc").write_text("int main()\n{\nreturn 0 ;\n}\n")
        assert not complaints(root, ["tidy.cc"])
        assert "untidy.cc" in complaints(root, ["untidy.cc"])


def main():
    # Looked up now: a build folder may have been configured before it was installed.
    if not shutil.which(CLANG_FORMAT):
        sys.exit(f"{CLANG_FORMAT} is missing: run scripts/setup.sh --tests")
    self_test()
    text = complaints(sources.ROOT, sources.code_files())
    sys.exit(f"{text}\nRun: git ls-files '*.h' '*.cc' | xargs {CLANG_FORMAT} -i" if text else 0)


if __name__ == "__main__":
    main()
