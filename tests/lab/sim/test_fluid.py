"""The fluid model: theory where there is some, and what the authors' own code gives on their settings."""

import numpy as np
import pytest

from bench.spines import ours, web_search
from lab.sim import ExperimentError
from lab.sim.fluid import MLFQ_KB, MP_KB, BoundedPareto, FluidExperiment, run_fluid

AUTHORS = [
    # kind, queues, thresholds, load, mean nFCT of the authors' code (1e5 flows, seed 0)
    ("mlfq", 2, MLFQ_KB[2, 0.5], 0.5, 1.288),
    ("mp", 2, MP_KB[4, 0.5], 0.5, 1.228),
    ("mlfq", 5, MLFQ_KB[5, 0.5], 0.5, 1.190),
    ("mlfq", 2, MLFQ_KB[2, 0.8], 0.8, 1.929),
    ("mp", 2, MP_KB[4, 0.8], 0.8, 1.628),
    ("mlfq", 5, MLFQ_KB[5, 0.8], 0.8, 1.600),
]


@pytest.mark.parametrize(("kind", "queues", "thresholds", "load", "theirs"), AUTHORS)
def test_nfct_is_that_of_the_authors_code_within_the_confidence_interval(kind, queues, thresholds, load, theirs):
    spines = 4 if kind == "mp" else 2
    found = run_fluid(FluidExperiment(kind, spines, queues, thresholds, load, flows=200_000, seed=1))
    value, low, high = found.interval()
    # Theirs is one run of 1e5 flows: its own interval is 1.4 times as wide as that of 2e5.
    wide = (high - low) / 2 * (1 + 2**0.5)
    assert abs(value - theirs) < max(wide, 0.01 * theirs)


@pytest.mark.parametrize(("spines", "load"), [(2, 0.4), (2, 0.8), (4, 0.4), (4, 0.8)])
def test_the_products_thresholds_are_not_worse_than_the_published_ones(spines, load):
    """The same flows under both, seed by seed; beyond the seeds' spread it would be worse."""
    thresholds = {
        "ours": tuple(float(kb) for kb in ours(web_search(), spines, load)),
        "theirs": MP_KB[spines, load],
    }
    mean = {
        name: [run_fluid(FluidExperiment("mp", spines, 2, kb, load, 60_000, seed)).nfct.mean() for seed in (1, 2, 3)]
        for name, kb in thresholds.items()
    }
    ratios = np.array(mean["ours"]) / np.array(mean["theirs"])
    assert ratios.mean() <= 1 + 2 * ratios.std(ddof=1)


def test_processor_sharing_has_the_slowdown_of_theory_for_every_size():
    found = run_fluid(FluidExperiment("mlfq", 1, 1, (), 0.8, flows=400_000, seed=2))
    _value, low, high = found.interval()
    assert low - 0.1 < 1 / (1 - 0.8) < high + 0.1
    small = found.size_kb < 50
    assert found.nfct[small].mean() == pytest.approx(found.nfct[~small].mean(), rel=0.1)


def test_the_balanced_class_is_shared_as_in_the_authors_code():
    shares = FluidExperiment(thresholds_kb=MP_KB[4, 0.8]).balanced_shares()
    assert shares == pytest.approx((0.3827, 0.2912, 0.1926, 0.1335), abs=0.002)
    assert sum(shares) == pytest.approx(1)


def test_the_bounded_pareto_has_the_mean_of_the_authors_code():
    assert BoundedPareto().mean == pytest.approx(1938.12, rel=1e-4)
    sizes = BoundedPareto().quantile((np.arange(10**6) + 0.5) / 10**6)
    assert sizes.min() >= 3 and sizes.max() <= 29_200
    assert sizes.mean() == pytest.approx(1938.12, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"thresholds_kb": (1.0,)}, "thresholds_kb has 1 values, expected 4"),
        ({"thresholds_kb": (3.0, 2.0, 4.0, 5.0)}, "thresholds_kb are"),
        ({"load": 0}, "load is 0"),
        ({"kind": "x"}, "kind is 'x'"),
        ({"thresholds_kb": (5000.0, 5001.0, 5002.0, 5003.0)}, "spine_shares are"),
    ],
)
def test_a_model_that_cannot_be_is_refused(settings, sentence):
    with pytest.raises(ExperimentError, match=sentence):
        FluidExperiment(**settings)
