"""What told the causes apart is said from the numbers alone."""

from lab.figures import qclimb_23_why as why
from lab.figures.intervals import over_seeds
from lab.figures.page import Scale
from lab.sim.sizes import size_table
from orchestrator.thresholds import Objective, SizeDistribution, optimise


def test_verdicts_name_the_changes_that_matter_and_the_variants_within_the_papers_range():
    means = {variant.name: {"QCLIMB": 1.0, "QCLIMB-PS": 0.95} for variant in why.VARIANTS}
    means["permutation"] = {"QCLIMB": 1.04, "QCLIMB-PS": 1.05}
    means["jobs of 16: many to one"] = {"QCLIMB": 0.9, "QCLIMB-PS": 0.8}
    base, perfect, forecast, *_, last = why.verdicts(means)
    assert "1.00, with perfect sizes 0.95" in base
    assert "with: jobs of 16: many to one (-0.15); shrinks with: permutation (+0.10)" in perfect
    assert "with: jobs of 16: many to one (-0.10); shrinks with: nothing" in forecast
    assert last.endswith("Within that here: jobs of 16: many to one.")


def test_our_thresholds_are_the_optimisers():
    table = size_table(why.SIZES)
    sizes = SizeDistribution.from_cdf(zip(table.size_bytes.tolist(), table.share.tolist(), strict=True))
    assert optimise(sizes, 8, why.LOAD, Objective.PIAS, segment_bytes=1460).threshold_bytes == why.OURS_PIAS_COST


def test_a_variant_changes_what_it_names_and_equal_points_are_equal():
    runs = why.runs(Scale("quick", 100, (1,), (why.LOAD,)))
    assert len(runs) == len(why.VARIANTS) * len(why.SCHEMES)
    base = runs["base", "pFabric", why.LOAD, 1]
    assert runs["known to a hundredth", "pFabric", why.LOAD, 1] == base
    assert runs["least timeout 10 ms", "pFabric", why.LOAD, 1] == base
    assert runs["known to a hundredth", "QCLIMB", why.LOAD, 1] != runs["base", "QCLIMB", why.LOAD, 1]


def test_an_interval_needs_two_seeds():
    mean, half = over_seeds([1.0])
    assert mean == 1 and half != half
    assert over_seeds([1.0, 3.0])[1] > 10
