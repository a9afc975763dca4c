"""What every command line does alike: its version, outputs that are checked first, root that is asked for first."""

import json
import subprocess
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from qclimb.options import Output

from tests.commands.test_help import COMMANDS

CONSOLES = ("qclimb.cli", "orchestrator.cli", "switchd.cli", "hostlib.hostd.cli", "hostlib.run")


@pytest.mark.parametrize("module", CONSOLES)
def test_each_console_command_tells_its_version(module: str) -> None:
    found = CliRunner().invoke(import_module(module).main, ["--version"], prog_name="it")
    assert (found.exit_code, found.output) == (0, f"it {version('qclimb')}\n")


def test_every_file_that_a_command_writes_is_checked_when_the_line_is_read() -> None:
    names = {"output", "document", "results", "plot", "cache"}
    ours = {name: command for name, command in COMMANDS.items() if name.startswith(("qclimb.", "orchestrator."))}
    options = [(name, each) for name, command in ours.items() for each in command.params if each.name in names]
    assert len(options) > 10
    assert [f"{name} {each.name}" for name, each in options if not isinstance(each.type, Output)] == []


WITHOUT_JSON = {
    "qclimb.cli.main completion": "a shell's script",
    "qclimb.cli.main lab exec": "another program's output",
    "qclimb.cli.main lab demo": "writes a report",
    "qclimb.cli.main lab run bounds": "keeps a JSON file a pass, and writes a page",
    "qclimb.cli.main lab run optax": "keeps a JSON file a pass, and writes a page",
    "qclimb.cli.main lab run tagger": "keeps a JSON file a pass, and writes a page",
    "qclimb.cli.main lab run bigspine": "keeps a JSON file a pass, and writes a page",
    "qclimb.cli.main lab run spineloss": "keeps a JSON file a pass, and writes a page",
    "qclimb.cli.main model foretell": "writes arrays",
    "orchestrator.cli.main ingest": "a daemon",
    "orchestrator.cli.main serve": "a daemon",
    "switchd.cli.main": "a daemon",
    "hostlib.hostd.cli.main": "a daemon",
    "hostlib.hostd.cli.main tagger-off": "says nothing but what was wrong",
    "hostlib.run.main": "becomes another program",
}
"""And why; recordings are told by `lab record show --json`, and plugins of SONiC's `config` print what it prints."""


def test_every_command_that_tells_something_tells_it_to_programs() -> None:
    lacking = {
        name
        for name, command in COMMANDS.items()
        if name.startswith(("qclimb.", "orchestrator.", "switchd.cli", "hostlib."))
        and not (isinstance(command, click.Group) and not command.invoke_without_command)
        and "--json" not in {word for each in command.params for word in each.opts}
    }
    recordings = {name for name in lacking if " lab record " in name}
    assert lacking - recordings == set(WITHOUT_JSON)


def test_a_trace_is_told_to_programs(tmp_path: Path) -> None:
    words = [
        "lab",
        "trace",
        "make",
        "--load",
        "0.6",
        "--seed",
        "1",
        "--seconds",
        "2",
        "-o",
        str(tmp_path / "t"),
        "--json",
    ]
    found = CliRunner().invoke(import_module("qclimb.cli").main, words)
    told = json.loads(found.output)
    assert told["flows"] > 0
    assert {"small", "medium", "large"} <= told["shares"].keys()


@pytest.mark.parametrize(
    ("options", "place", "good"),
    [
        ({}, "new.txt", True),
        ({}, "none/new.txt", False),
        ({"parents": True}, "none/below/new.txt", True),
        ({"folder": True}, "none/below", True),
        ({}, "file/new.txt", False),
        ({"parents": True}, "file/below/new.txt", False),
        ({}, "folder", False),
        ({}, "n" * 300, False),
        ({"folder": True}, "file", False),
        ({"folder": True}, "/dev/null", False),
        ({"endings": (".png", ".svg")}, "new.svg", True),
        ({"endings": (".png", ".svg")}, "new", False),
    ],
)
def test_an_output_is_a_place_that_can_be_written(
    tmp_path: Path, options: dict[str, Any], place: str, good: bool
) -> None:
    (tmp_path / "file").write_text("here")
    (tmp_path / "folder").mkdir()
    wanted = tmp_path / place
    if good:
        assert Output(**options).convert(str(wanted), None, None) == wanted
    else:
        with pytest.raises(click.BadParameter, match=str(wanted)):
            Output(**options).convert(str(wanted), None, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_place_that_even_root_cannot_write_to_is_refused_before_anything_runs() -> None:
    words = ["figures", "bigspine-5a", "--quick", "--output", "/proc/x"]
    found = CliRunner().invoke(import_module("qclimb.cli").main, words)
    assert found.exit_code == 2
    assert "/proc can't be written" in found.output


def test_a_recording_without_a_place_to_go_records_nothing(tmp_path: Path) -> None:
    words = ["lab", "record", "kv", "-o", str(tmp_path / "none" / "kv.parquet")]
    found = CliRunner().invoke(import_module("qclimb.cli").main, words)
    assert found.exit_code == 2
    assert "there is no folder" in found.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", ["lab demo", "lab up", "lab run fct", "lab record kv -o kv.parquet", "lab exec h1 true"]
)
def test_root_is_asked_for_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    def nothing(*_: object, **__: object) -> None:
        pytest.fail("a program was started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(subprocess.Popen, "__init__", nothing)
    found = CliRunner().invoke(import_module("qclimb.cli").main, words.split())
    assert found.exit_code == 2
    assert found.output.startswith("Error: ")
    assert "root" in found.output
    assert len(found.output.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_options_may_stand_after_the_node() -> None:
    from lab.cli.fabric import after_node
    from lab.fabric import FabricError

    assert after_node("qc", False, ("ls", "--bare")) == ("qc", False, ("ls", "--bare"))
    assert after_node("qc", False, ("--bare", "--", "ls", "-l")) == ("qc", True, ("ls", "-l"))
    assert after_node("qc", False, ("--prefix", "x", "ls")) == ("x", False, ("ls",))
    assert after_node("qc", False, ("--prefix=x", "--bare", "ls")) == ("x", True, ("ls",))
    for words in (("--bar", "ls"), ("--bare",), ("--",)):
        with pytest.raises(FabricError, match="expected"):
            after_node("qc", False, words)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('nane = "h1"', "expected one as 'name'"),
        ("tagger_dev = 'eth0'", "expected a list"),
        ("name = ", "expected a TOML file"),
        ("poll_interval_s = 0", "poll-interval-s"),
    ],
)
def test_a_bad_config_file_is_refused_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "hostd.toml"
    path.write_text(text)
    found = CliRunner().invoke(import_module("hostlib.hostd.cli").main, ["--config", str(path)])
    assert found.exit_code == 2
    assert said in found.output


def test_so_is_a_flag_that_is_not_true_or_false(tmp_path: Path) -> None:
    path = tmp_path / "orchestrator.toml"
    path.write_text("plain_loopback = 'no'")
    found = CliRunner().invoke(import_module("orchestrator.cli").main, ["serve", "--config", str(path)])
    assert found.exit_code == 2
    assert "expected true or false" in found.output


def test_the_command_line_counts_before_the_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("hostlib.hostd.cli")
    seen: list[tuple[object, ...]] = []
    monkeypatch.setattr(module, "serve", lambda *values: seen.append(values))
    path = tmp_path / "hostd.toml"
    path.write_text('name = "h1"\norchestrator = "https://192.0.2.1"\ntoken_file = "t"\ntagger_dev = ["a", "b"]\n')
    found = CliRunner().invoke(module.main, ["--config", str(path), "--name", "h2"])
    assert found.exit_code == 0, found.output
    assert seen[0][:2] == ("h2", "https://192.0.2.1")
    assert ("a", "b") in seen[0]


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("qclimb.cli", "figures no-such-page"),
        ("qclimb.cli", "lab show nothing --prefix none-is-called-that"),
        ("qclimb.cli", "lab sim no-such-settings.json"),
        ("qclimb.cli", "model ladder {garbage}"),
        ("qclimb.cli", "lab record plot {garbage} -o plot.png"),
        (
            "hostlib.hostd.cli",
            "--name h1 --orchestrator https://127.0.0.1:1 --token-file {garbage} --run-dir {garbage}/x",
        ),
        ("hostlib.hostd.cli", "--run-dir {garbage}.none status"),
        ("hostlib.run", "--policy {garbage} -- true"),
        ("hostlib.run", "-- no-such-program"),
        ("orchestrator.cli", "init {folder} --address 127.0.0.1 --switch ca=127.0.0.1"),
        ("switchd.cli", "--redis nonsense://x"),
    ],
)
def test_a_refusal_is_one_sentence_after_error_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, words: str
) -> None:
    (tmp_path / "garbage").write_bytes(b"\xff nothing")
    monkeypatch.chdir(tmp_path)
    line = words.format(garbage=tmp_path / "garbage", folder=tmp_path / "c").split()
    found = CliRunner().invoke(import_module(module).main, line)
    said = [each for each in found.output.splitlines() if each]
    if said[0].startswith("Usage: "):  # click's own, for what it reads itself
        said = said[-1:]
    assert found.exit_code == 2, (found.output, found.exception)
    assert len(said) == 1
    assert said[0].startswith("Error: "), said
