"""Passes: their order, what is not measured again, and what is measured twice."""

import io
import json
import os
import resource
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from lab.experiment.passes import Pass, Run, interleaved, measure
from lab.experiment.store import Lines, Store, digests, key_of, replace_text, whole
from lab.experiment.terminal import Progress, Teller

SCHEMES = ("a", "b", "c")
WANTED = [Pass(*one, f"{one[0]}-{one[1]}-{one[2]}") for one in interleaved([(1, SCHEMES), (2, SCHEMES)], (1, 2))]
NAMES = {one: one.name for one in WANTED}


class Lab:
    """Counts what runs; a pass gives what `gives` says of its name, else its repeat."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(
            folder, lambda path: int(json.loads(path.read_text())), lambda n, path: path.write_text(str(n)) and None
        )
        self.ran: list[str] = []
        self.benches = 0
        self.gives: dict[str, list[int]] = {}
        self.said = io.StringIO()

    @contextmanager
    def bench(self, missing: Sequence[Pass[int]]) -> Iterator[Run[Pass[int], int]]:
        self.benches += 1

        def run(one: Pass[int], progress: Progress) -> int:
            self.ran.append(one.name)
            return self.gives[one.name].pop(0) if one.name in self.gives else one.repeat

        yield run

    def measure(self, **more: object) -> dict[Pass[int], int]:
        say = Teller(Console(file=self.said, width=200))
        return measure(WANTED, NAMES, self.store, self.bench, say, **more)  # type: ignore[arg-type]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_repeats_are_outermost_and_schemes_take_turns_to_be_first() -> None:
    assert [one.name for one in WANTED[:6]] == ["1-a-1", "1-b-1", "1-c-1", "2-b-1", "2-c-1", "2-a-1"]
    assert [one.repeat for one in WANTED] == [1] * 6 + [2] * 6


def test_only_what_is_missing_is_measured(lab: Lab) -> None:
    assert len(lab.measure()) == len(lab.ran) == 12
    lab.store.path("2-c-1").unlink()
    lab.store.path("1-a-2").write_text("half a li")
    lab.ran.clear()
    assert list(lab.measure()) == WANTED
    assert lab.ran == ["2-c-1", "1-a-2"]
    lab.benches = 0
    lab.measure()
    assert lab.benches == 0


def test_what_is_stored_is_all_that_a_run_without_measuring_gives(lab: Lab) -> None:
    lab.store.save("1-b-2", 7)
    assert {one.name: found for one, found in lab.measure(is_stored=True).items()} == {"1-b-2": 7}
    assert not lab.ran


def test_a_kept_result_that_no_longer_fits_is_measured_again(lab: Lab) -> None:
    lab.measure()
    lab.ran.clear()
    lab.measure(fits=lambda one, result: one.name != "1-c-1")
    assert lab.ran == ["1-c-1"]


def test_each_pass_meets_the_bench_of_its_like(lab: Lab) -> None:
    lab.measure(together=lambda one: one.point)
    assert lab.benches == 2
    assert [name[0] for name in lab.ran] == ["1"] * 6 + ["2"] * 6


def test_no_pass_begins_when_the_time_is_over(lab: Lab) -> None:
    found = lab.measure(seconds=1e-9)
    assert not found and not lab.ran
    assert len(lab.measure()) == 12


def test_a_pass_in_trouble_is_run_once_again_and_the_better_one_kept(lab: Lab) -> None:
    lab.gives = {"1-a-1": [3, 1], "1-b-1": [1, 3]}

    def trouble(result: int) -> list[str]:
        return ["odd"] * result if result != 2 else []

    found = {one.name: result for one, result in lab.measure(trouble=trouble).items()}
    assert found["1-a-1"] == found["1-b-1"] == 1
    assert lab.ran.count("1-a-1") == 2 and lab.ran.count("1-a-2") == 1
    assert "once again, for: odd; odd; odd" in lab.said.getvalue()


def test_what_is_there_and_what_is_missing_is_said(lab: Lab) -> None:
    lab.store.save("1-a-1", 1)
    lab.measure()
    assert "12 passes wanted, 1 are there already" in lab.said.getvalue()
    assert "pass 11 of 11: 2-c-2, about 0 min left" in lab.said.getvalue()


def test_a_claim_keeps_others_out_until_the_result_is_saved(tmp_path: Path) -> None:
    one, other = Lab(tmp_path).store, Lab(tmp_path).store
    one.save("first", 1)
    assert one.claim("x") and not other.claim("x")
    one.save("x", 5)
    assert other.claim("x") and other.find("x") == 5
    other.close()
    assert one.claim("x")
    one.close()


def test_what_is_decided_outlives_a_run(tmp_path: Path) -> None:
    assert Lab(tmp_path).store.decided() == {}
    Lab(tmp_path).store.keep({"0.6": [1, 2, 3]})
    assert Lab(tmp_path).store.decided() == {"0.6": [1, 2, 3]}


def test_a_line_that_was_cut_off_counts_as_not_there(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    lines = Lines(path, lambda row: str(row["n"]))
    lines.save("1", {"n": 1})
    lines.save("2", {"n": 2})
    path.write_text(path.read_text()[:-3])
    again = Lines(path, lambda row: str(row["n"]))
    assert again.find("1") == {"n": 1} and again.find("2") is None


def test_what_follows_half_a_line_is_kept_and_each_line_that_can_not_be_read_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": 2{"n": 3}\n\xff\x00}\n[4]\n{"m": 5}\n{"n": 6')
    lines = Lines(path, lambda row: str(row["n"]))
    assert lines.find("1") == {"n": 1}
    assert [record.args for record in caplog.records] == [(path, number) for number in (2, 3, 4, 5, 6)]
    lines.save("7", {"n": 7})
    lines.save("8", {"n": 8})
    again = Lines(path, lambda row: str(row["n"]))
    assert [again.find(str(n)) for n in (1, 6, 7, 8)] == [{"n": 1}, None, {"n": 7}, {"n": 8}]


def test_a_line_for_which_the_disk_has_no_room_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """By RLIMIT_FSIZE, whose signal Python ignores: a write goes to the limit, and the next one fails."""
    path = tmp_path / "lines.jsonl"
    lines = Lines(path, lambda row: str(row["n"]))
    lines.save("1", {"n": 1})
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, limits[1]))
    try:
        with pytest.raises(OSError) as failed:
            lines.save("2", {"n": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert failed.value.filename == str(path)
    assert path.read_bytes() == before and lines.find("2") is None


def test_two_who_write_one_file_wait_for_each_other_and_neither_leaves_half_of_it(tmp_path: Path) -> None:
    path, begun, goes_on = tmp_path / "page.md", threading.Event(), threading.Event()

    def write_slowly() -> None:
        with whole(path) as part:
            part.write_text("first, ")
            begun.set()
            assert goes_on.wait(60)
            with part.open("a") as file:
                file.write("whole")

    with ThreadPoolExecutor(2) as both:
        first = both.submit(write_slowly)
        assert begun.wait(60)
        second = both.submit(replace_text, path, "second")
        with whole(tmp_path / "page.svg") as part:  # of one stem, and another file
            part.write_text("picture")
        assert not second.done() and not path.exists()
        goes_on.set()
        first.result(60)
        second.result(60)
    assert path.read_text() == "second"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["page.md", "page.svg"]


def test_what_a_killed_run_left_is_overwritten_and_a_failure_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    (tmp_path / ".page.md.part").write_text("half a page of a run that was killed")
    replace_text(path, "whole")
    with pytest.raises(RuntimeError), whole(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert path.read_text() == "whole"
    assert [each.name for each in tmp_path.iterdir()] == ["page.md"]


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    replace_text(path, "whole")
    assert (os.read(reader, 100), path.is_fifo()) == (b"whole", True)
    os.close(reader)


def test_a_key_is_that_of_the_words_and_of_their_order_where_that_is_asked(tmp_path: Path) -> None:
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1}) == "d8497d9d82770a707292"
    assert key_of({"a": 1, "b": 2}, sort_keys=False) != key_of({"b": 2, "a": 1}, sort_keys=False)
    (tmp_path / "x").write_text("x")
    assert digests([tmp_path / "x", tmp_path / "y"]) == {"x": "2d711642b726b044", "y": "missing"}
