"""The book: points are run once, pages say what they found, and the command is plain about what it can't do."""

import errno
import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from lab.cli import lab
from lab.cli.figures import figures
from lab.experiment.intervals import Interval
from lab.experiment.plots import colours
from lab.figures import points, render
from lab.figures.index import write_index
from lab.figures.page import Panel, Paper, Scale, Series, Story
from lab.figures.pages.asked import ASKED
from lab.figures.pages.bigspine.fluid import PAGE_A as BIGSPINE
from lab.figures.pages.book import PAGES
from lab.figures.pages.qclimb.fig23 import PAGE as QCLIMB_23
from lab.figures.render import write
from lab.figures.sweep import run_all
from lab.sim import Experiment, FlowList, Topology, Workload

SMALL = Experiment(Topology(2, 1, 3), workload=Workload("homa_w3_googleall_bytes"), flows=200)


def test_a_point_is_run_once_and_read_back_alike(tmp_path):
    first = run_all({0: SMALL}, tmp_path)[0]
    found = run_all({0: SMALL}, tmp_path)
    again = found[0]
    assert found.computed == 0
    assert again.fct_us.tobytes() == first.fct_us.tobytes()
    assert again.counters == first.counters


def test_points_come_in_the_order_of_the_runs_and_not_of_the_cache(tmp_path):
    runs = {seed: replace(SMALL, seed=seed) for seed in (3, 1, 2)}
    run_all({2: runs[2]}, tmp_path)
    assert list(run_all(runs, tmp_path, jobs=2)) == [3, 1, 2]
    assert list(run_all(runs, tmp_path)) == [3, 1, 2]


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path):
    runs = {seed: replace(SMALL, seed=seed) for seed in range(4)}
    run_all({0: runs[0]}, tmp_path)
    there = tmp_path / f"{points.name_of(runs[0])}.npz"
    written_ns = there.stat().st_mtime_ns
    (tmp_path / f"{points.name_of(runs[1])}.part").write_bytes(b"half a file")
    found = run_all(runs, tmp_path, jobs=2)
    assert sorted(found) == [0, 1, 2, 3] and found.computed == 3
    assert there.stat().st_mtime_ns == written_ns


def test_points_have_one_name_for_equal_experiments_and_others_for_others():
    zeros = np.zeros(2_000, np.int64)
    listed = [FlowList(zeros, zeros + 1 + last, zeros, zeros + 1) for last in (0, 0, 1)]
    names = [points.name_of(Experiment(workload=flows, flows=2_000)) for flows in listed]
    assert names[0] == names[1] != names[2]
    assert points.name_of(SMALL) == points.name_of(replace(SMALL)) != points.name_of(replace(SMALL, load=0.5))


def test_the_fluid_page_is_written_with_its_verdicts(tmp_path):
    scale = Scale("quick", 5_000, (1, 2), (0.5, 0.8))
    found = run_all(BIGSPINE.runs(scale), tmp_path, 2)
    story = BIGSPINE.tell(scale, found)
    text = write(BIGSPINE, scale, story, tmp_path / "page", "qclimb figures bigspine-5a").read_text()
    assert len(story.rows) == 6 and len(story.verdicts) == 7
    assert "MP-MLFQ N=2 K=4 at 0.8" in text
    assert (tmp_path / "page/bigspine-5a.svg").read_text().startswith("<?xml")


def test_a_page_that_cannot_be_written_whole_leaves_the_one_that_was_there(tmp_path, monkeypatch):
    def full(figure, path, **how):
        path.write_text("<?xml half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(render.plt.Figure, "savefig", full)
    line = Series("QCLIMB", [0.0, 1.0], [Interval(0.6, 0.5, 0.7)] * 2)
    story = Story([{"load": "0.5"}], [Panel("t", "x", "y", [line])], [])
    (tmp_path / "bigspine-5a.svg").write_text("whole")
    with pytest.raises(OSError, match=r"No space left.*bigspine-5a.svg"):
        write(BIGSPINE, BIGSPINE.scales["quick"], story, tmp_path, "qclimb figures bigspine-5a")
    assert [path.name for path in tmp_path.iterdir()] == ["bigspine-5a.svg"]
    assert (tmp_path / "bigspine-5a.svg").read_text() == "whole"


def test_the_index_has_a_line_a_page_with_its_verdict(tmp_path):
    (tmp_path / "one.md").write_text(
        "# One\n\n`qclimb figures one`: 5 flows; 3 points, 1.5 CPU minutes.\n\n"
        "**Verdict**: Fig. 1 as | printed (by us); to 0.93. More of it.\n\n- Claim.\n"
    )
    (tmp_path / "two.md").write_text("# Two\n\n`qclimb figures two`: 5 flows.\n\n- First claim.\n- Second.\n")
    (tmp_path / "notes.md").write_text("# Something else\n")
    for _again in range(2):
        rows = [line for line in write_index(tmp_path, ASKED).read_text().splitlines() if line.startswith("| [")]
        assert rows == [
            "| [One](one.md) | Fig. 1 as / printed |",
            "| [Two](two.md) | First claim |",
        ]


def test_every_figure_that_was_asked_for_has_a_page_of_the_book(tmp_path):
    assert {page for asked in ASKED for page in asked.pages} <= set(PAGES)
    (tmp_path / "pfabric-16.md").write_text("# P\n\n`qclimb figures pfabric-16`: 5 flows.\n\n- Claim.\n")
    text = write_index(tmp_path, ASKED).read_text()
    assert "| pFabric Fig. 16 |" not in text  # its page has its name
    assert "| pFabric Fig. 17a | (not made here) |" in text
    assert "| QCLIMB Fig. 15 | (not made here) |" in text


def test_the_shipped_book_has_every_page_and_is_of_its_own_index(tmp_path):
    book = Path(__file__).parents[3] / "docs/figures"
    assert {path.stem for path in book.glob("*.md")} == {*PAGES, "README"}
    for path in book.glob("*.md"):
        shutil.copy(path, tmp_path)
    assert write_index(tmp_path, ASKED).read_text() == (book / "README.md").read_text()


STROKE = re.compile(r"(?:stroke|fill): (#[0-9a-f]{6})")


@pytest.mark.parametrize("name", PAGES)
def test_a_scheme_has_its_own_colour_in_the_shipped_plots(name):
    drawn = ElementTree.parse(Path(__file__).parents[3] / f"docs/figures/{name}.svg")
    lines: dict[str, dict[str, str | None]] = {}
    for group in drawn.iter("{http://www.w3.org/2000/svg}g"):
        panel, colon, label = group.get("id", "").rpartition(": ")
        if colon:
            styles = " ".join(each.get("style", "") for each in group.iter())
            drawn_in = STROKE.search(styles)  # nothing where the axis leaves all of it out
            lines.setdefault(panel, {})[label] = drawn_in and drawn_in[1]
    assert lines, f"docs/figures/{name}.svg: no lines with names, expected what `qclimb figures {name}` draws"
    for panel, found in lines.items():
        assert any(found.values())
        assert found == {label: found[label] and colour for label, colour in colours(found).items()}, panel


def test_a_long_title_of_an_axis_is_not_cut_off(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(render.plt.Figure, "savefig", lambda figure, path, **how: drawn.append(figure))
    line = Series("PDQ(Full)", [15.0, 30.0], [Interval(20_000, 10_000, 30_000), Interval(50, 40, 60)])
    render.draw([Panel("t", "x", "flows a second at 99 % of short ones in time", [line])], tmp_path / "drawn.svg")
    drawn[0].draw_without_rendering()
    title, whole = drawn[0].axes[0].yaxis.label.get_window_extent(), drawn[0].bbox
    assert whole.y0 <= title.y0 and title.y1 <= whole.y1


@pytest.mark.parametrize("names", [(), ("one", "two")])
def test_the_paper_s_numbers_are_drawn_and_named_in_the_legend(names, tmp_path):
    line = Series("QCLIMB", [0.0, 1.0], [Interval(0.6, 0.5, 0.7)] * 2)
    sizes = []
    for papers in ((), (Paper("QCLIMB", [0.0], 0.2, 0.4), Paper("QCLIMB", [0.0, 1.0], 0.9, 0.9))):
        render.draw([Panel("t", "x", "y", [line], names, papers)], tmp_path / "drawn.svg")
        text = (tmp_path / "drawn.svg").read_text()
        assert ("the paper's" in text) == bool(papers)
        sizes.append(text.count("FillBetweenPolyCollection") + text.count("PolyCollection"))
    assert sizes[1] > sizes[0]


@pytest.mark.parametrize("name", PAGES)
def test_every_page_says_what_load_is(name):
    assert any("load" in line.lower() for line in PAGES[name].settings)


def test_the_qclimb_page_holds_each_claim_against_the_paper(tmp_path):
    scale = Scale("quick", 60, (1,), (0.5,))
    found = run_all(QCLIMB_23.runs(scale), tmp_path, 2)
    story = QCLIMB_23.tell(scale, found)
    assert len(story.verdicts) == 6 and story.verdict.startswith("of 6 claims ")
    assert all("PageRank, QCLIMB / " in verdict and ", the paper " in verdict for verdict in story.verdicts)


def test_axes_are_logarithmic_where_values_differ_much_and_zero_has_a_place():
    for values, scale, low in (
        ((1, 2), "linear", 0),
        ((1, 90), "log", 0.5),
        ((0, 90, 9000), "symlog", 0),
        ((0, 0.1, 1), "linear", 0),
    ):
        figure, axis = render.plt.subplots()
        axis.plot(values, values)
        for letter in "xy":
            render._scale_of(axis, letter, values)
        assert axis.get_xscale() == axis.get_yscale() == scale
        assert axis.get_ylim()[0] >= 0 and axis.get_ylim()[0] >= low
        render.plt.close(figure)


@pytest.mark.parametrize("names", [(), ("one", "two")])
def test_bars_reach_from_the_lower_end_to_the_upper_one(names, tmp_path):
    wide = [Interval(0.6, 0.2, 2.0), Interval(0.5, float("nan"), float("nan"))]
    series = Series("A", [0.0, 1.0], wide)
    assert render._bars(series) == [[pytest.approx(0.4), 0.0], [pytest.approx(1.4), 0.0]]
    assert render._bars(Series("A", [0.0], wide[1:])) is None
    render.draw([Panel("t", "x", "y", [series], names)], tmp_path / "drawn.svg")
    assert (tmp_path / "drawn.svg").stat().st_size > 1000


def test_a_legend_is_no_wider_than_its_figure():
    assert render._legend_columns(["8 queues, long windows"] * 7, 4.4) == 2
    assert render._legend_columns(["a"] * 4, 8.8) == 4 and render._legend_columns(["a" * 200], 4.4) == 1


def test_commands_name_what_they_do_not_know():
    runner = CliRunner()
    assert runner.invoke(figures, ["nothing"]).exit_code == 2
    assert all(name in runner.invoke(figures, []).output for name in PAGES)
    for words, sentence in (
        (["--scheme", "nothing"], "scheme is 'nothing', expected one of"),
        (["--set", "max_windw=1"], "did you mean max_window?"),
        (["--load", "0"], "load is 0.0"),
        (["--list", "/nowhere"], "is no flow list"),
        (["--list", "/nowhere", "--load", "0.9"], "load is 0.9, but --list is given"),
        (["--list", "/nowhere", "--sizes", "datamining_bytes"], "sizes is datamining_bytes, but --list is given"),
        (["--spines", "0"], "topology.spines is 0"),
        (["--host-gbps", "nan"], "topology.host_rate_bps is nan Gb/s"),
        (["--scheme", "pias", "--set", "thresholds_bytes=9,5"], "scheme.thresholds_bytes are (9, 5)"),
        (["--routing", "best"], "routing is 'best'"),
    ):
        found = runner.invoke(lab, ["sim", *words])
        assert found.exit_code == 2 and sentence in found.output and found.output.count("\n") == 1
    shown = runner.invoke(lab, ["sim", "--flows", "50", "--leaves", "2", "--json"])
    assert shown.exit_code == 0 and '"fct_mean_us"' in shown.output
    over = runner.invoke(lab, ["sim", "--flows", "50", "--leaves", "2", "--load", "1.3"])
    assert over.exit_code == 0 and "load is 1.3" in over.output


def test_a_class_without_flows_has_no_row(tmp_path):
    (tmp_path / "flows.txt").write_text("0 100000 0 1\n5 100 1 0\n")
    shown = CliRunner().invoke(lab, ["sim", "--list", str(tmp_path / "flows.txt")]).output
    assert "small 2" in shown and "large" not in shown and "nan" not in shown
