"""Mode `qclimb` in the kernel: the forest's bounds bit for bit, and climbs."""

import random

import numpy as np
import pytest
from qclimb.forest import Forest, feature_rows
from qclimb.hostfile import encode_forest
from qclimb.policy import Mode
from scoped import kernel_mode, send
from stand import B6, B, policy
from test_kernel import SIZE, static_c  # noqa: F401
from test_marks import check_climb

from tests.contract.trees import Tree, forest_of, leaf, split

pytestmark = pytest.mark.fabric
FEATURES = 12
LOWEST = {0: 1e6, 1: 1e5, 7: 1e4, 8: 0.5, 9: 2**23, 10: 2**23}
"""By feature, about where its values lie; sizes otherwise."""


def random_tree(drawn: random.Random, depth: int) -> Tree:
    if not depth or drawn.random() < 0.1:
        lower = drawn.randrange(1 << drawn.randrange(1, 40))
        return leaf(lower, lower + drawn.randrange(1 << drawn.randrange(1, 40)))
    feature = drawn.randrange(FEATURES)
    threshold = LOWEST.get(feature, 12_000) * drawn.choice([0.01, 0.5, 1, 1.0001, 2, 100])
    return split(feature, threshold, random_tree(drawn, depth - 1), random_tree(drawn, depth - 1))


def random_forest(seed: int) -> Forest:
    drawn = random.Random(seed)
    trees = [random_tree(drawn, 6) for _ in range(drawn.choice([1, 7, 60]))]
    order = tuple(drawn.sample(range(FEATURES), FEATURES))
    return forest_of(*trees, depth=6, feature_ids=order, generation=seed)


def test_the_forests_bounds_are_those_of_user_space(pair, static_c):  # noqa: F811
    host, b = pair
    told = policy(Mode.QCLIMB, model_generation=1)
    host.run_dir.joinpath("model").write_bytes(encode_forest(random_forest(1)))
    with kernel_mode(host, told) as a:
        for seed in range(1, 7):
            forest = random_forest(seed)
            host.run_dir.joinpath("model").write_bytes(encode_forest(forest))
            a.follow(policy(Mode.QCLIMB, generation=seed, model_generation=seed))
            assert not a.kernel.problem
            a.records.clear()
            send(a, b, static_c, 12_000, flows=20, to=B6 if seed % 2 else B)
            records = a.told(20)
            rows = feature_rows([record.features() for record in records], forest.feature_ids)
            lower, upper = forest.predict_bytes(rows)
            assert [record.lower_bytes for record in records] == lower.tolist()
            assert [record.upper_bytes for record in records] == upper.tolist()
            assert len(np.unique(rows, axis=0)) == len(rows)


def test_a_flow_within_the_first_threshold_asks_no_forest(pair, static_c):  # noqa: F811
    host, b = pair
    host.run_dir.joinpath("model").write_bytes(encode_forest(random_forest(1)))
    with kernel_mode(host, policy(Mode.QCLIMB, model_generation=1)) as a:
        send(a, b, static_c, 9_000)
        assert [(record.lower_bytes, record.upper_bytes) for record in a.told(1)] == [(0, 2**64 - 1)]


def test_a_model_that_is_not_there_is_named(pair):
    with kernel_mode(pair[0], policy()) as a:
        a.follow(policy(Mode.QCLIMB, model_generation=7))
        assert a.kernel.problem.endswith("expected model 7")


@pytest.mark.parametrize("content", [b"", b"nothing", bytes(4096)])
def test_so_is_a_damaged_one_and_it_serves_again_once_it_is_whole(pair, content):
    model = pair[0].run_dir / "model"
    with kernel_mode(pair[0], policy()) as a:
        model.write_bytes(content)
        for _ in range(2):
            a.follow(policy(Mode.QCLIMB, model_generation=1))
            assert a.kernel.problem.startswith(f"{model}: ")
        model.write_bytes(encode_forest(random_forest(1)))
        a.follow(policy(Mode.QCLIMB, model_generation=1))
        assert not a.kernel.problem


def test_one_write_climbs_towards_any_receiver_and_is_not_sent_again(pair, static_c):  # noqa: F811
    host, b = pair
    with kernel_mode(host, policy(Mode.QCLIMB)) as a:
        seen = check_climb(host, lambda: send(a, b, static_c, SIZE), SIZE)
        was_overtaken = seen.repeated > 0  # nothing was sent again; a slow sender's packets may find no queue to pass
        assert a.tagger.counts()["hidden"] > 0 or not was_overtaken
        assert "filter on" in a.tagger.status
