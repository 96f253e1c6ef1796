#!/usr/bin/python3
"""Adds up the JUnit reports of a test run: count_tests.py REPORTS_FOLDER...

A folder holds ctest*.xml, pytest*.xml and gtest/PROGRAM.xml. A GoogleTest program counts by its own
test cases; any other ctest entry counts as one. The last line is 'N passed, N failed', and the exit
status is 1 if anything failed or nothing ran.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree


def outcome(case):
    """passed, failed or skipped, for a <testcase> of ctest, GoogleTest or pytest."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped")
    if case.get("status") == "fail":
        return "failed"
    if skipped is not None and skipped.get("message") == "Unable to find executable":
        return "failed"  # ctest's word for a program that was not built
    if skipped is not None or case.get("result") in ("skipped", "suppressed"):
        return "skipped"
    return "passed"


def cases_of(report):
    return list(xml.etree.ElementTree.parse(report).iter("testcase"))


def count(folder):
    totals, failures = collections.Counter(), []

    def add(case, suite):
        result = outcome(case)
        totals[result] += 1
        if result == "failed":
            failures.append(f"{suite}: {case.get('name')}")

    programs = {report.stem: cases_of(report) for report in (folder / "gtest").glob("*.xml")}
    for program, cases in programs.items():
        for case in cases:
            add(case, program)
    for report in sorted(folder.glob("ctest*.xml")):
        for case in cases_of(report):
            inner = programs.get(case.get("name"), [])
            told = any(outcome(c) == "failed" for c in inner) if outcome(case) == "failed" else inner
            if not told:  # not a GoogleTest program, or one that died without saying why
                add(case, "ctest")
    for report in sorted(folder.glob("pytest*.xml")):
        for case in cases_of(report):
            add(case, case.get("classname"))
    return totals, failures


def main():
    totals = collections.Counter()
    for folder in sys.argv[1:]:
        counted, failures = count(pathlib.Path(folder))
        totals += counted
        for failure in failures:
            print(f"failed: {failure}")
    skipped = f", {totals['skipped']} skipped" if totals["skipped"] else ""
    print(f"{totals['passed']} passed, {totals['failed']} failed{skipped}")
    sys.exit(0 if totals["passed"] and not totals["failed"] else 1)


if __name__ == "__main__":
    main()
