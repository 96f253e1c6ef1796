"""The recording rules give the numbers that were worked out by hand."""

import pathlib

from manifests import ROOT, run_tool


def test_recording_rules_are_well_formed():
    run_tool("promtool", "check", "rules", ROOT / "k8s" / "rules" / "anchorage.rules.yml")


def test_recording_rules_give_the_expected_numbers():
    run_tool("promtool", "test", "rules",
             pathlib.Path(__file__).with_name("anchorage.rules.test.yml"))
