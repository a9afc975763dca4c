import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from bench import __main__ as bench


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["kernel", "--loads", "redis,nginx-3k"], "no load 'nginx-3k'; expected iperf3, "),
        (["shim", "--loads", "redis"], "goes with one benchmark that has loads"),
        (["--loads", "redis"], "goes with one benchmark that has loads"),
    ],
)
def test_a_load_that_is_not_there_is_one_sentence_and_status_2(argv, said):
    result = CliRunner().invoke(bench.main, argv)
    assert result.exit_code == 2
    assert said in result.stderr.splitlines()[-1]
    assert not result.stdout


def two_rows(chosen=()):
    yield {"load": "first", "chosen": ",".join(chosen)}
    yield {"load": "second"}
    raise SystemExit(143)  # as a deadline has it


@pytest.fixture
def broken_off(monkeypatch):
    module = SimpleNamespace(run=two_rows, loads=lambda: ["redis-cubic", "redis-bbr"])
    monkeypatch.setattr(bench.importlib, "import_module", lambda name: module)


def test_a_row_is_told_as_it_is_measured_and_what_was_measured_before_the_end_is_shown(broken_off):
    result = CliRunner().invoke(bench.main, ["kernel", "--loads", "redis"])
    assert result.exit_code == 143
    assert "[bench] kernel: load first, chosen redis\n" in result.stderr
    assert result.stdout.index("first") < result.stdout.index("second")


def test_json_has_what_was_measured_before_the_end(broken_off):
    result = CliRunner().invoke(bench.main, ["kernel", "--loads", "redis-bbr", "--json"])
    assert json.loads(result.stdout) == {"kernel": [{"load": "first", "chosen": "redis-bbr"}, {"load": "second"}]}
