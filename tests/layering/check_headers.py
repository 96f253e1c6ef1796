#!/usr/bin/python3
"""Compiles each header alone: whoever includes it needs no other include before it."""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import sources

FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-parameter",
         "-mavx2", "-mfma", "-mf16c", "-fsyntax-only", "-x", "c++", "-"]


def compile_alone(compiler, root, generated, header):
    """The compiler's complaints about a file that includes nothing but `header`; '' if none."""
    command = [compiler, f"-I{root}", "-isystem", str(generated), *FLAGS]
    result = subprocess.run(command, input=f'#include "{header}"\n', capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def self_test(compiler):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "whole.h").write_text("#pragma once\n#include <string>\ninline std::string s;\n")
        (root / "needy.h").write_text("#pragma once\ninline std::string s;\n")
        assert not compile_alone(compiler, root, root, "whole.h")
        assert "std::string" in compile_alone(compiler, root, root, "needy.h")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--generated", required=True, help="folder of the generated headers")
    args = parser.parse_args()
    self_test(args.compiler)

    headers = [path for path in sources.code_files() if path.suffix == ".h"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = pool.map(
            lambda header: compile_alone(args.compiler, sources.ROOT, args.generated, header), headers)
        failed = {header: text for header, text in zip(headers, complaints) if text}
    for header, text in failed.items():
        print(f"{header} does not compile alone:\n{text}")
    print(f"{len(headers)} headers compiled alone, {len(failed)} of them not")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
