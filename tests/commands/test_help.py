"""Every command and sub-command, walked: what its help has, and numbers that are numbers."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution

import click
import pytest
from click.testing import CliRunner

PLACES = (
    ("qclimb.cli", "main"),
    ("orchestrator.cli", "main"),
    ("switchd.cli", "main"),
    ("switchd.show.qclimb", "qclimb"),
    ("switchd.show.plain", "plain"),
    ("switchd.show.config_qclimb", "qclimb"),
    ("switchd.show.clear_qclimb", "qclimb"),
    ("switchd.patch", "main"),
    ("switchd.dump", "main"),
    ("hostlib.hostd.cli", "main"),
    ("hostlib.run", "main"),
    ("tests.compat.__main__", "main"),
    ("bench.__main__", "main"),
    ("bench.control", "main"),
)


def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for each, inner in command.commands.items():
            yield from below(f"{name} {each}", inner)


COMMANDS = dict(
    found for module, name in PLACES for found in below(f"{module}.{name}", getattr(import_module(module), name))
)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_has_an_example(name):
    assert "Example" in (COMMANDS[name].epilog or ""), name


def test_no_console_of_setup_py_is_left_out():
    named = {
        tuple(each.value.split(":")) for each in distribution("qclimb").entry_points if each.group == "console_scripts"
    }
    assert named <= set(PLACES)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_option_and_argument_says_what_it_is(name):
    command = COMMANDS[name]
    assert (command.help or "").strip(), name
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.hidden or parameter.help, f"{name} {parameter.opts[0]}"
        elif not isinstance(parameter.type, click.Choice):  # its values stand in the usage line
            called = parameter.metavar or str(parameter.name).upper()
            assert called in f"{command.help}{command.epilog}", f"{name} {called}"


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if isinstance(command, click.Group)])
def test_in_80_columns_no_command_is_cut_in_its_groups_list(name):
    shown = CliRunner().invoke(COMMANDS[name], ["--help"], terminal_width=80).output
    assert [line for line in shown.partition("Commands:")[2].splitlines() if line.endswith("...")] == []


@pytest.mark.parametrize("name", ["hostlib.run.main", "orchestrator.cli.main serve"])
def test_without_a_word_a_command_that_needs_some_shows_its_help(name):
    found = CliRunner().invoke(COMMANDS[name], [])
    assert "Example" in found.output
    assert "Error" not in found.output


@pytest.mark.parametrize(
    "module", ["qclimb.cli", "orchestrator.cli", "switchd.cli", "hostlib.hostd.cli", "hostlib.run"]
)
def test_no_command_loads_what_is_slow_before_it_is_needed(module):
    slow = "numpy scipy pyarrow matplotlib sklearn sqlalchemy pydantic fastapi uvicorn grpc"
    code = f"import sys, {module}\nprint(*(name for name in {slow.split()} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert found.stdout.split() == []


def test_no_option_with_a_range_takes_nan_or_infinity():
    tried = 0
    for name, command in COMMANDS.items():
        for option in command.params:
            if isinstance(option.type, click.FloatRange):
                for text in ("nan", "inf"):
                    with pytest.raises(click.BadParameter):
                        option.type.convert(text, option, None)
                        pytest.fail(f"{name} {option.name}")
                tried += 1
    assert tried > 10
