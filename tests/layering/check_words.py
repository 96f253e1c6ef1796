#!/usr/bin/python3
"""The repository speaks of the product alone: nothing of how, where or by whom it was made, and
nothing left open."""

import pathlib
import re
import sys

import sources

FORBIDDEN = [re.compile(form) for form in [
    r"/(work|farm)/",                            # folders of one machine
    r"\.library\b",
    r"(?<![\w/-])shared/",
    r"(?i)\bissues? #?\d",                       # somebody's tracker
    r"(?<![\w/])(design|style|style_anchors)\.md",  # papers that are not in the repository
    r"(?<![\w/])spec/",
    r"(?i)\b(claude|anthropic|chatgpt|copilot|codex)\b",
    r"(?i)(?<!user-)(?<!user_)\bagents?\b",
    r"(?i)\b(sub-?agent|this session|the lead|pull request)\b",
    r"\b(TODO|FIXME|XXX|HACK)\b",
    r"(?i)\bnot (yet )?implemented\b",
]]
THIS_FILE = pathlib.PurePath("tests/layering/check_words.py")
THE_LICENCE = pathlib.PurePath("LICENSE")


def forbidden_in(text):
    """(line number, word) of each forbidden word."""
    return [(number, match.group())
            for number, line in enumerate(text.splitlines(), 1)
            for form in FORBIDDEN
            if (match := form.search(line))]


def self_test():
    for text in ["see /work/main", "as in design.md", "// TODO: later", "fixes issue 12",
                 "an agent wrote this", "cp shared/x ."]:
        assert forbidden_in(text), text
    for text in ["User-Agent: curl", "std::shared_ptr", "the working set", "docs/design.md",
                 "mktemp -d x.XXXXXX", "a session on one socket"]:
        assert not forbidden_in(text), text


def main():
    self_test()
    found = 0
    for path in sources.repository_files():
        if path in (THIS_FILE, THE_LICENCE):
            continue
        text = (sources.ROOT / path).read_text(encoding="utf-8", errors="replace")
        for number, word in forbidden_in(text):
            print(f"{path}:{number}: '{word}'")
            found += 1
    sys.exit(f"{found} words that do not belong in the product" if found else 0)


if __name__ == "__main__":
    main()
