"""`qclimb lab` as somebody at a terminal meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.cli import lab

QCLIMB = str(Path(sys.executable).parent / "qclimb")


def qclimb(*arguments, **options):
    return subprocess.run([QCLIMB, "lab", *arguments], capture_output=True, text=True, timeout=300, **options)


@pytest.mark.parametrize("command", [["up"], ["down"], ["exec", "h1", "true"], ["show", "l1"]])
def test_without_root_a_sentence_says_so(command, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # another user could not read this checkout's Python
    done = CliRunner().invoke(lab, command)
    assert done.exit_code == 2
    assert "root" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["up", "down", "exec", "show"])
def test_help_has_an_example(command):
    done = CliRunner().invoke(lab, [command, "--help"])
    assert done.exit_code == 0 and "Example" in done.stdout


@pytest.mark.fabric
def test_up_exec_show_down(prefix_for):
    prefix = ["--prefix", prefix_for("cli")]
    up = qclimb("up", *prefix, "--no-control", "--hosts-per-leaf", "1", "--no-calibrate", "--json")
    try:
        assert up.returncode == 0, up.stderr
        described = json.loads(up.stdout)
        assert described["hosts"] == {"h1": "198.19.1.1", "h2": "198.19.2.1"}
        assert described["guard"]["honest"]
        shown = qclimb("exec", *prefix, "--bare", "h1", "--", "sh", "-c", "echo $QCLIMB_RUN; exit 3")
        assert shown.returncode == 3
        assert shown.stdout.strip() == f"{described['state']}/hosts/h1"
        wrong = CliRunner().invoke(lab, ["exec", *prefix, "h9", "true"])
        assert wrong.exit_code == 2 and "h9" in wrong.stderr
        wrong = CliRunner().invoke(lab, ["show", *prefix, "l1"])
        assert wrong.exit_code == 2 and "control plane" in wrong.stderr
    finally:
        down = qclimb("down", *prefix)
    assert down.returncode == 0 and "removed" in down.stdout


@pytest.mark.fabric
def test_impossible_sizes_are_refused_before_anything_is_built(prefix_for):
    done = CliRunner().invoke(lab, ["up", "--prefix", prefix_for("big"), "--hosts-per-leaf", "0"])
    assert done.exit_code == 2 and "hosts_per_leaf is 0" in done.stderr
    done = CliRunner().invoke(lab, ["down", "--prefix", "../etc"])
    assert done.exit_code == 2 and "prefix" in done.stderr
