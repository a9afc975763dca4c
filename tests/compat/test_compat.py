"""`make compat` compares results, and no difference gets lost on the way. The programs themselves run only by hand."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from qclimb.policy import Mode

from tests.compat import __main__ as command
from tests.compat.bed import Bed, CompatError, Hung
from tests.compat.bodies import body, same, same_files
from tests.compat.cpython import results_of
from tests.compat.outcome import ABSENT, FAILED, PASSED, SKIPPED, Outcome, compare, verdict
from tests.compat.program import Command, Course, Downloads, Program
from tests.compat.sanitizer import Sanitizer

LIBRARY = Path(__file__).parents[2] / "hostlib" / "build" / "libqclimb.so"


def failures(bare, under):
    return [(d.name, d.bare, d.under) for d in compare(Outcome(bare), Outcome(under)).failures]


def test_what_is_the_same_is_no_failure():
    results = {"a": PASSED, "b": SKIPPED, "c": FAILED, "d": "17 errors"}
    assert failures(results, results) == []


@pytest.mark.parametrize("now", [FAILED, SKIPPED, f"{FAILED}: a reason", "18 errors"])
def test_what_passed_and_no_longer_does_is_a_new_failure(now):
    assert failures({"a": PASSED, "b": PASSED}, {"a": PASSED, "b": now}) == [("b", PASSED, now)]


def test_a_value_that_changes_is_a_new_failure():
    assert failures({"sha256": "aa"}, {"sha256": "ab"}) == [("sha256", "aa", "ab")]


def test_a_result_that_vanishes_or_appears_as_failed_is_a_new_failure():
    assert failures({"a": PASSED, "b": SKIPPED}, {"a": PASSED}) == [("b", SKIPPED, ABSENT)]
    assert failures({"a": PASSED}, {"a": PASSED, "run": FAILED}) == [("run", ABSENT, FAILED)]


def test_a_failure_stays_one_failure_whatever_its_reason():
    assert failures({"a": f"{FAILED}: port 4001"}, {"a": f"{FAILED}: port 4002"}) == []
    assert failures({"a": FAILED}, {"a": SKIPPED}) == [("a", FAILED, SKIPPED)]


def test_what_passes_only_under_the_library_is_told_but_is_no_failure():
    found = compare(Outcome({"a": FAILED}), Outcome({"a": PASSED}))
    assert not found.failures
    assert [str(difference) for difference in found.mended] == ["a: failed -> passed"]


def test_what_fails_bare_is_told_by_name():
    assert Outcome({"a": f"{FAILED}: why", "b": PASSED, "c": SKIPPED}).failed() == (f"a: {FAILED}: why",)


def test_what_a_sanitizer_finds_is_a_new_failure(tmp_path):
    """Its runtime writes a file beside log_path where it finds something, and none where it does not."""

    def run(course):
        path = dict(option.split("=") for option in course.bed.environment.get("X_OPTIONS", "a=b").split(":"))
        if "log_path" in path and course.bed.mode is Mode.QCLIMB:
            Path(path["log_path"] + ".17").write_text("WARNING\nSUMMARY: a data race in flow_write\n")
        course.tell("a", PASSED)

    console = command.Console(quiet=True)
    report = command.Report(False, None)
    sanitizer = Sanitizer("thread", (), (("X_OPTIONS", "halt=0"),))
    program = Program("program", "", {}, lambda: [run])
    command._run_program(program, [Mode.PIAS, Mode.QCLIMB], tmp_path, LIBRARY, report, console, sanitizer)
    quiet, found = report.runs
    assert not quiet.comparison.failures
    (failure,) = found.comparison.failures
    assert failure.under == f"{FAILED}: SUMMARY: a data race in flow_write"


def test_of_many_files_the_first_that_differs_is_told(tmp_path):
    files = [tmp_path / str(n) for n in range(3)]
    for file in files:
        file.write_bytes(body(100))
    assert same_files(files, body(100)) == PASSED
    files[1].write_bytes(body(99))
    assert same_files(files, body(100)).startswith(f"{FAILED}: 99 bytes")
    files[0].unlink()
    assert same_files(files, body(100)) == f"{FAILED}: no file 0"


def test_rates_are_a_ratio_and_never_a_verdict():
    found = compare(Outcome({"a": PASSED}, 200.0), Outcome({"a": PASSED}, 1.0))
    assert found.rate_ratio == 0.005
    assert not found.failures
    assert compare(Outcome({"a": PASSED}, 0.0), Outcome({"a": PASSED}, 1.0)).rate_ratio is None


def test_a_run_that_checks_nothing_is_refused():
    with pytest.raises(ValueError, match="checks nothing"):
        Outcome({})
    with pytest.raises(ValueError, match="finite"):
        Outcome({"a": PASSED}, float("nan"))


def test_reasons_stay_on_one_line():
    assert verdict(False, "two\n  lines") == "failed: two lines"
    assert verdict(True, "unused") == PASSED


def test_a_body_that_differs_tells_where():
    wanted = body(1_000)
    assert same(wanted, wanted) == PASSED
    assert "1000 bytes" in same(wanted[:500] + b"!" + wanted[501:], wanted)
    assert "differs at byte 500 of 1000" in same(wanted[:500] + bytes([wanted[500] ^ 1]) + wanted[501:], wanted)
    assert "differs at byte 999 of 1000" in same(wanted[:999], wanted)
    assert "differs at byte 1000 of 1000" in same(wanted + b"x", wanted)


JUNIT = """<testsuites tests="6"><testsuite>
<testcase name="t.A.test_good" status="run" result="completed"/>
<testcase name="t.A.test_skips" status="run" result="completed"><skipped>why</skipped></testcase>
<testcase name="t.A.test_fails" status="run" result="completed"><failure type="AssertionError">x</failure></testcase>
<testcase name="t.A.test_errs" status="run" result="completed"><error type="OSError">x</error></testcase>
<testcase name="t.A.test_expected" status="run" result="completed"><output type="AssertionError">x</output></testcase>
<testcase name="t.A.test_odd" status="run" result="completed"><outcome>UNEXPECTED_SUCCESS</outcome></testcase>
<testcase name="t.A.test_good_once" status="run" result="completed"><error type="OSError">x</error></testcase>
<testcase name="t.A.test_good_once" status="run" result="completed"/>
<testcase/>
</testsuite></testsuites>"""


def test_regrtests_junit_is_read_test_by_test():
    assert results_of(JUNIT) == {
        "t.A.test_good": PASSED,
        "t.A.test_skips": SKIPPED,
        "t.A.test_fails": FAILED,
        "t.A.test_errs": FAILED,
        "t.A.test_expected": PASSED,
        "t.A.test_odd": FAILED,
        "t.A.test_good_once": FAILED,
    }


def test_a_program_that_is_missing_is_never_passed(tmp_path):
    absent = Program("absent", "", {"no-such-program": "no-such-package"}, lambda: [])
    assert absent.missing() == ("no-such-package",)
    report = command.Report(False, None)
    command._run_program(absent, [Mode.PIAS], tmp_path, LIBRARY, report, command.Console(quiet=True))
    assert report.missing == {"absent": ("no-such-package",)}
    assert report.runs == []


def test_a_failure_that_only_the_library_brings_makes_the_whole_run_bad(tmp_path):
    def run(course):
        if course.bed.mode is Mode.QCLIMB:
            raise CompatError("it broke")
        course.tell("a", PASSED)

    report = command.Report(False, None)
    program = Program("program", "", {}, lambda: [run])
    command._run_program(program, [Mode.PIAS], tmp_path / "1", LIBRARY, report, command.Console(quiet=True))
    assert report.is_good
    command._run_program(program, [Mode.QCLIMB], tmp_path / "2", LIBRARY, report, command.Console(quiet=True))
    assert not report.is_good
    assert any("it broke" in str(difference) for difference in report.runs[-1].comparison.failures)


def test_a_program_that_fails_bare_is_not_good_either(tmp_path):
    def run(course):
        raise CompatError("it does not start")

    report = command.Report(False, None)
    program = Program("program", "", {}, lambda: [run])
    command._run_program(program, [Mode.PIAS], tmp_path, LIBRARY, report, command.Console(quiet=True))
    assert "it does not start" in report.broken["program"]
    assert not report.is_good


def test_what_hangs_is_ended_with_its_children_and_tells_where_it_stood(tmp_path):
    bed = Bed(tmp_path / "bed", None, LIBRARY)
    with pytest.raises(Hung, match="not at its end") as hung:
        bed.run("sh", "-c", "sleep 1000; exit 3", timeout_s=3)
    assert "sleep in" in hung.value.stacks
    pids = {int(line.split("/")[0]) for line in hung.value.stacks.splitlines() if line[0].isdigit()}
    assert len(pids) == 2
    assert not any(_runs(pid) for pid in pids)
    bed.end()


def test_a_server_that_does_not_start_says_why(tmp_path):
    bed = Bed(tmp_path / "bed", None, LIBRARY)
    with pytest.raises(CompatError, match=r"ended with status 1: .*no such option"):
        bed.serve(sys.executable, "-c", "raise SystemExit('no such option')", port=bed.port())
    bed.end()


@pytest.mark.skipif(not LIBRARY.is_file(), reason="libqclimb.so is not built: make -C hostlib")
def test_a_run_under_the_library_sees_its_flows_demoted(tmp_path):
    bed = Bed(tmp_path / "bed", Mode.PIAS, LIBRARY)
    echo = (
        "import socket; a = socket.create_server(('127.0.0.1', 0)); b = socket.create_connection(a.getsockname());"
        "c, _ = a.accept(); b.sendall(b'x' * 20_000); assert len(c.recv(20_000, socket.MSG_WAITALL)) == 20_000"
    )
    bed.run(sys.executable, "-c", echo)
    seen = bed.end()
    assert (seen.flows, seen.bytes) == (1, 20_000)
    assert seen.demotions >= 1  # how many there is room for is the kernel's: a boundary comes late


def test_a_commands_words_have_the_same_port_wherever_it_stands(tmp_path):
    (tmp_path / "of").mkdir()
    (tmp_path / "of" / "1.2").write_text("")
    course = Course(Bed(tmp_path / "a bed", None, LIBRARY))
    first = course.words("ask '$folder/x y' 127.0.0.1:$port")
    assert first == ["ask", f"{tmp_path}/a bed/x y", f"127.0.0.1:{course.names['port']}"]
    assert course.words("$port $other_port") == [course.names["port"], course.names["other_port"]]
    assert course.words(f"{tmp_path}/*/1.*") == [f"{tmp_path}/of/1.2"]
    with pytest.raises(KeyError, match="flder"):
        course.words("$flder")


@pytest.mark.parametrize(
    ("step", "word"),
    [
        (Command("printf body", "a", wants=lambda: b"body"), PASSED),
        (Command("printf bodY", "a", wants=lambda: b"body"), f"{FAILED}: 4 bytes, sha256 "),
        (Command("printf head,body", "a", lambda: b"body", lambda out: out.partition(b",")[2]), PASSED),
        (Command("touch made", "a", files={"made": bytes}), PASSED),
        (Command("true", "a", files={"made": bytes}), f"{FAILED}: no file made"),
        (Command("cat", "a", stdin=lambda: b"7", judge=lambda course, done: done.stdout.decode()), "7"),
        (Command("curl -fsS", "a", downloads=Downloads("file://$folder/given", 2, lambda: b"it")), PASSED),
        (Command("curl -fsS", "a", downloads=Downloads("file://$folder/given", 2, lambda: b"i")), f"{FAILED}: 2 bytes"),
    ],
)
def test_a_command_is_held_to_what_its_row_says(tmp_path, step, word):
    course = Course(Bed(tmp_path / "bed", None, LIBRARY))
    (course.bed.folder / "given").write_text("it")
    step(course)
    assert course.results["a"].startswith(word)


def test_a_command_that_fails_under_the_library_leaves_the_others_to_be_seen(tmp_path):
    steps = [Command("sh -c 'exit 3'", "a"), Command("true", "b")]
    found = Program("program", "", {}, lambda: steps).run(bed := Bed(tmp_path / "under", Mode.PIAS, LIBRARY))
    bed.end()
    assert found.results == {"a": f"{FAILED}: sh ended with status 3:", "b": PASSED}
    for mode, command_ in ((None, steps[0]), (Mode.PIAS, Command("sh -c 'exit 3'"))):
        bed = Bed(tmp_path / f"{mode}", mode, LIBRARY)
        with pytest.raises(CompatError, match="status 3"):
            Program("program", "", {}, lambda step=command_: [step]).run(bed)
        bed.end()


def test_of_two_words_under_one_name_the_worse_is_told(tmp_path):
    course = Course(Bed(tmp_path / "bed", None, LIBRARY))
    for word in (PASSED, FAILED, PASSED):
        course.tell("a", word)
    assert course.results == {"a": FAILED}


def test_the_list_names_every_program():
    listed = CliRunner().invoke(command.main, ["--list"])
    assert listed.exit_code == 0
    first, then = "curl openssl redis memcached nginx haproxy", "nbd ssh node java iperf3 postgres cpython"
    assert [line.split()[0] for line in listed.output.splitlines()] == f"{first} {then}".split()


def _runs(pid):
    """Whether it is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
