#!/usr/bin/python3
"""Holds every #include to the table of rooms in docs/ARCHITECTURE.md.

Three rules: a file includes only rooms that its room may see; it includes only libraries that its
room may use; a header that drags in Asio, Beast, protobuf, spdlog or UCX stays inside its room.
"""

import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile

import sources

# Third-party libraries by the path of their headers. What matches nothing is C++ or the system.
LIBRARIES = {
    "absl": r"absl/",
    "boost": r"boost/",
    "cuda": r"(cuda|cublas|cudnn|curand|nccl|nvrtc|nv)\w*\.h|cub/|thrust/|cooperative_groups",
    "gtest": r"g(test|mock)/",
    "json": r"nlohmann/",
    "prometheus": r"prometheus/",
    "protobuf": r"google/protobuf/",
    "spdlog": r"(spdlog|fmt)/",
    "ucx": r"uc[pts]/",
    "utf8proc": r"utf8proc\.h",
    "xxhash": r"xxhash\.h",
}
HEAVY_LIBRARIES = {"boost", "protobuf", "spdlog", "ucx"}
ALL = {"*"}


@dataclasses.dataclass(frozen=True)
class Room:
    sees: set  # other rooms that it may include
    uses: set  # third-party libraries that it may include


# A file belongs to the room with the longest path that its own path, without suffix, starts with.
ROOMS = {
    "proto": Room(set(), {"protobuf"}),
    "common": Room(set(), {"absl"}),
    "observe": Room({"common"}, {"absl", "boost", "prometheus", "spdlog"}),
    "files": Room({"common"}, {"absl", "json"}),
    "text": Room({"common", "files"}, {"absl", "json", "utf8proc"}),
    "kernels": Room(set(), {"cuda"}),
    "kv/plan": Room(set(), set()),
    "kv/plan_flags": Room({"kv/plan", "kv/profile_file", "common"}, {"absl"}),
    "kv/profile_file": Room({"kv/plan", "common"}, {"absl", "json"}),
    "kv": Room({"kv/plan", "common", "kernels"}, {"absl", "xxhash"}),
    "model": Room({"common", "files", "kernels", "kv", "kv/plan"}, {"absl", "cuda", "xxhash"}),
    "transport": Room({"common", "observe", "proto"},
                      {"absl", "boost", "cuda", "protobuf", "ucx", "xxhash"}),
    "worker": Room({"common", "observe", "proto", "files", "text", "kernels", "kv", "kv/plan",
                    "kv/plan_flags", "model", "transport"}, {"absl", "boost", "protobuf", "spdlog"}),
    "prefill_node/core": Room({"common", "observe", "files", "kernels", "kv", "kv/plan", "model"},
                              {"absl", "cuda"}),
    "prefill_node": Room({"prefill_node/core", "worker", "common", "observe", "proto", "files", "text",
                          "kernels", "kv", "kv/plan", "kv/plan_flags", "model", "transport"},
                         {"absl", "boost", "cuda", "prometheus", "protobuf", "spdlog", "xxhash"}),
    "decode_node/core": Room({"common", "observe", "files", "kernels", "kv", "kv/plan", "model"},
                             {"absl", "cuda"}),
    "decode_node": Room({"decode_node/core", "worker", "common", "observe", "proto", "files", "text",
                         "kernels", "kv", "kv/plan", "kv/plan_flags", "model", "transport"},
                        {"absl", "boost", "cuda", "prometheus", "protobuf", "spdlog", "xxhash"}),
    "router": Room({"common", "observe", "proto", "transport", "text", "files", "kv/plan",
                    "kv/plan_flags"},
                   {"absl", "boost", "json", "prometheus", "protobuf", "spdlog"}),
    "eval": Room(ALL, ALL),
    "tools": Room(ALL, ALL),
    "bench": Room(ALL, ALL),
    "tests": Room(ALL, ALL),
}
# What is inside these rooms is as good as inside the rooms named: heavy headers may pass.
INNER_ROOMS = {"worker": {"prefill_node", "decode_node"}}
NEVER_INCLUDED = {"eval": {"tools", "bench", "tests"}, "tools": {"tests"}, "bench": {"tests"}, "tests": set()}  # room: who may all the same

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def room_of(path):
    parts = pathlib.PurePath(path).with_suffix("").parts
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in ROOMS:
            return name
    return None


def library_of(include):
    return next((name for name, form in LIBRARIES.items() if re.match(form, include)), None)


def allowed(allowance, name):
    return allowance is ALL or name in allowance


class Checker:
    def __init__(self, root):
        self.root = root
        self.includes = {str(path): self.read_includes(path) for path in sources.code_files(root)}
        self.problems = []

    def read_includes(self, path):
        text = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return [(quoted or angled, bool(quoted)) for quoted, angled in INCLUDE.findall(text)]

    def check(self):
        for path, includes in self.includes.items():
            room = room_of(path)
            if room is None:
                self.problem(path, "lies in no room of the table")
                continue
            for include, quoted in includes:
                self.check_include(path, room, include, quoted)
        return self.problems

    def check_include(self, path, room, include, quoted):
        library = library_of(include)
        target = room_of(include)
        if library is not None:
            if not allowed(ROOMS[room].uses, library):
                self.problem(path, f"{room} may not use {library} (<{include}>)")
        elif target is not None:
            self.check_room(path, room, include, target)
        elif quoted:
            self.problem(path, f'"{include}" is not a path from the root to a file of a room')

    def check_room(self, path, room, include, target):
        if target == room:
            return
        if target in NEVER_INCLUDED and room not in NEVER_INCLUDED[target]:
            self.problem(path, f'nothing may include {target} ("{include}")')
        elif not allowed(ROOMS[room].sees, target):
            self.problem(path, f'{room} may not include {target} ("{include}")')
        elif room != "tests" and room not in INNER_ROOMS.get(target, ()) and self.heavy(include):
            self.problem(path, f'"{include}" brings {self.heavy(include)} out of its room {target}')

    def heavy(self, header, seen=()):
        """The heavy library that a header of ours includes, itself or through others; or None."""
        for include, _ in self.includes.get(header, ()):
            library = "protobuf" if include.endswith(".pb.h") else library_of(include)
            if library in HEAVY_LIBRARIES:
                return library
            if include not in seen and (found := self.heavy(include, (*seen, header))):
                return found
        return None

    def problem(self, path, text):
        self.problems.append(f"{path}: {text}")


def self_test():
    """Each rule must find the violation that is planted for it, and nothing else."""
    good = {
        "common/a.h": '#include "absl/status/status.h"\n',
        "transport/session.h": "#include <boost/asio.hpp>\n",
        "transport/channel.h": '#include "common/a.h"\n#include <memory>\n',
        "router/main.cc": '#include "transport/channel.h"\n#include "proto/worker.pb.h"\n',
        "tests/transport/session_test.cc": '#include "transport/session.h"\n',
        "worker/wire.h": '#include "proto/worker.pb.h"\n',
        "decode_node/node.cc": '#include "worker/wire.h"\n',
    }
    planted = {
        "common/bad.h": ('#include "kv/x.h"\n', "common may not include kv"),
        "common/asio.cc": ("#include <boost/asio.hpp>\n", "common may not use boost"),
        "kernels/bad.h": ('#include "absl/status/status.h"\n', "kernels may not use absl"),
        "kv/plan/bad.h": ('#include "kv/x.h"\n', "kv/plan may not include kv"),
        "prefill_node/bad.cc": ('#include "decode_node/x.h"\n', "may not include decode_node"),
        "decode_node/core/bad.cc": ('#include "transport/channel.h"\n', "may not include transport"),
        "router/bad.cc": ('#include "kernels/x.h"\n', "router may not include kernels"),
        "router/kv.cc": ('#include "kv/x.h"\n', "router may not include kv"),
        "bench/bad.cc": ('#include "tools/x.h"\n', "nothing may include tools"),
        "router/heavy.cc": ('#include "transport/session.h"\n', "brings boost out of its room"),
        "router/indirect.cc": ('#include "transport/outer.h"\n', "brings boost out of its room"),
        "text/relative.cc": ('#include "x.h"\n', "not a path from the root"),
        "stray/x.cc": ("", "lies in no room"),
    }
    helpers = {"transport/outer.h": '#include "transport/session.h"\n'}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        subprocess.run(["git", "init", "-q", folder], check=True)
        for path, text in {**good, **helpers, **{p: t for p, (t, _) in planted.items()}}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        problems = Checker(root).check()
    for path, (_, expected) in planted.items():
        found = [text for text in problems if text.startswith(path + ":")]
        assert len(found) == 1 and expected in found[0], f"{path}: wanted '{expected}', got {found}"
    assert len(problems) == len(planted), problems


def main():
    self_test()
    problems = Checker(sources.ROOT).check()
    print("\n".join(problems))
    sys.exit(f"{len(problems)} includes break the table of rooms" if problems else 0)


if __name__ == "__main__":
    main()
