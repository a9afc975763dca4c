"""Values of wrong kinds: whatever field of a coflow's or a flow's settings has one, a sentence names it."""

from dataclasses import fields, replace

import numpy as np
import pytest

from lab.sim import (
    D3,
    BCube,
    Bursty,
    Can,
    Experiment,
    ExperimentError,
    FatTree,
    FlowLevel,
    FlowList,
    Homa,
    Incast,
    Jellyfish,
    Jobs,
    Known,
    Leaves,
    Linear,
    Pdq,
    Permutation,
    Pfabric,
    Rcp,
    Staggered,
    Stride,
    Tcp,
    Told,
    Topology,
    ToRack,
    Watch,
    Workload,
)
from lab.sim.coflow import Aalo, CoflowExperiment, Coflows, Policy
from lab.sim.fluid import BoundedPareto, FluidExperiment
from lab.sim.replay import Recorded
from lab.sim.shares import Question
from lab.sim.tasks import Ictcp, Optax

NUMBERS = np.array([1, 2])
COFLOWS = Coflows(4, NUMBERS, NUMBERS - 1, NUMBERS, NUMBERS, NUMBERS)
FLOWS = FlowList(NUMBERS, NUMBERS, NUMBERS, NUMBERS + 1)
RIGHT = [FLOWS, COFLOWS, CoflowExperiment(COFLOWS), Policy(), Aalo(), Watch(1), Topology(), Experiment()]
RIGHT += [Pfabric(), Tcp(), Homa(), Pdq(), Rcp(), D3(), FlowLevel(), Ictcp(), Optax(), Told("told", {"x": 1}), Can()]
RIGHT += [FatTree(), BCube(), Jellyfish(), Linear(), Permutation(), Stride(1), Staggered(0.5), Incast(), ToRack()]
RIGHT += [Leaves(), Known(0.5), Bursty(), Workload(), Jobs("websearch_bytes", 4), BoundedPareto(), FluidExperiment()]
RIGHT += [
    Question([[0.0, 0.0], [1e6, 1.0]], [10_000], True, 0, 0.5, 10**6, 10.0, 10, 10.0, True, 10**5, [[0, 3]], 1, 10**6),
    Recorded("recorded", *[NUMBERS] * 8, (10_000,)),
]


@pytest.mark.parametrize(
    "wrong", [[1, "x"], {"a": 1j}, object(), 1j, b"1", float("nan")], ids=lambda wrong: type(wrong).__name__
)
@pytest.mark.parametrize("right", RIGHT, ids=lambda right: type(right).__name__)
def test_a_value_of_a_wrong_kind_is_a_sentence_that_names_the_field(right, wrong):
    for field in fields(right):
        with pytest.raises(ExperimentError, match=rf"\b{field.name}\b.* (is|are) .*expected") as caught:
            replace(right, **{field.name: wrong})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("wrong", "where_right"), [(None, ("None",)), (True, ("bool",)), ("x", ("str",))], ids=repr)
@pytest.mark.parametrize("right", RIGHT, ids=lambda right: type(right).__name__)
def test_nothing_true_and_a_word_are_refused_where_they_mean_nothing(right, wrong, where_right):
    for field in fields(right):
        if not any(word in field.type for word in where_right):
            with pytest.raises(ExperimentError, match=rf"\b{field.name}\b.* (is|are) .*expected"):
                replace(right, **{field.name: wrong})
