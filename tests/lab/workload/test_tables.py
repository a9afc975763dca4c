import numpy as np
import pytest

from lab.sizes import SizeTable, load_table

# Means under linear interpolation as published with the tables' sources.
MEANS = {
    "websearch_bytes": 1_711_250.0,
    "datamining_bytes": 12_658_198.6,
    "fbhadoop2015_bytes": 121_848.9,
    "fbwebserver_cw_bytes": 66_121.0,
    "alistorage2019_bytes": 40_869.8,
    "fbcache_tg_bytes": 342.24,
}


@pytest.mark.parametrize(("name", "mean"), MEANS.items())
def test_a_tables_mean_is_the_published_one(name, mean):
    assert load_table(name).mean_bytes() == pytest.approx(mean, rel=1e-4)


@pytest.mark.parametrize("name", [*MEANS, "flux_pagerank_est_bytes"])
def test_a_table_names_its_source(name):
    assert "/" in load_table(name).source


def test_samples_have_the_mean_and_the_shares_of_their_table():
    table = load_table("websearch_bytes")
    sizes = table.quantile(np.random.default_rng(1).random(400_000))
    assert sizes.mean() == pytest.approx(table.mean_bytes(), rel=0.01)
    assert (sizes <= 80_000).mean() == pytest.approx(0.53, abs=0.005)


def test_the_mean_of_parts_adds_up_to_the_whole():
    table = load_table("websearch_bytes")
    parts = 0.9 * table.mean_bytes(0, 0.9) + 0.1 * table.mean_bytes(0.9, 1)
    assert parts == pytest.approx(table.mean_bytes())
    # 5 to 10 MB with 0.07, 10 to 30 MB with 0.03, uniform in each.
    assert table.mean_bytes(0.9, 1) == pytest.approx((7.5e6 * 0.07 + 20e6 * 0.03) / 0.1)


def test_an_unknown_table_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"known: .*websearch_bytes"):
        load_table("nosuch")


@pytest.mark.parametrize(
    ("size", "share", "words"),
    [
        ([0, 10], [0, 0.9], "last share"),
        ([10, 0], [0, 1], "ascend"),
        ([0, 10, 20], [0, 0.7, 0.5], "not fall"),
        ([0, float("nan")], [0, 1], "ascend"),
    ],
)
def test_an_impossible_table_is_refused(size, share, words):
    with pytest.raises(ValueError, match=words):
        SizeTable("bad", np.array(size, float), np.array(share, float))
