#!/usr/bin/python3
"""Each header compiles alone: whoever includes it needs no other include before it.

A header that some source of the build includes first, before anything else, was compiled alone by
the build itself. The others are compiled here, each from a file that includes nothing else.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import sources

FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-parameter",
         "-mavx2", "-mfma", "-mf16c", "-fsyntax-only", "-x", "c++", "-"]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)


def first_includes(compile_commands):
    """The first include of every source in CMake's list of what the build compiles."""
    includes = set()
    for command in json.loads(pathlib.Path(compile_commands).read_text(encoding="utf-8")):
        source = pathlib.Path(command["directory"], command["file"])
        if not source.is_file():  # generated, by a build of other targets than these
            continue
        if found := INCLUDE.search(source.read_text(encoding="utf-8")):
            includes.add(found.group(1))
    return includes


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
        (root / "a.cc").write_text('// Idea.\n#include "whole.h"\n#include "needy.h"\n')
        commands = root / "compile_commands.json"
        commands.write_text(json.dumps([{"directory": folder, "file": "a.cc"}]))
        assert first_includes(commands) == {"whole.h"}
        assert not compile_alone(compiler, root, root, "whole.h")
        assert "std::string" in compile_alone(compiler, root, root, "needy.h")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--generated", required=True, help="folder of the generated headers")
    parser.add_argument("--compile-commands", required=True, help="what the build compiles")
    args = parser.parse_args()
    self_test(args.compiler)

    headers = [path for path in sources.code_files() if path.suffix == ".h"]
    by_build = first_includes(args.compile_commands)
    left = [header for header in headers if str(header) not in by_build]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = pool.map(
            lambda header: compile_alone(args.compiler, sources.ROOT, args.generated, header), left)
        failed = {header: text for header, text in zip(left, complaints) if text}
    for header, text in failed.items():
        print(f"{header} does not compile alone:\n{text}")
    print(f"{len(headers)} headers, {len(headers) - len(left)} compiled alone by the build, "
          f"{len(left)} here, {len(failed)} of them not")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
