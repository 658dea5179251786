"""Metrics weighted by inverse propensity: golden vectors, laws, and the bias that weights remove."""

from __future__ import annotations

import numpy as np
import pytest
from samples import coded

from evalplugin.base.errors import DataError, ParameterError
from evalplugin.data import Interactions
from evalplugin.metrics import Blocks, definitions_hash, evaluate, parse
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scoring import score_top_n
from evalplugin.models.selection import TopN

TRAIN = [{"a"}, {"a"}, {"a"}, {"a", "b"}]  # popularity: a 4, b 1, c and d 0


@pytest.mark.parametrize(
    ("power", "listed", "truth", "expected"),
    [
        (0.5, ["b"], {"a", "b"}, 1 / (1 / 4**0.5 + 1)),
        (0.5, ["a"], {"a", "b"}, (1 / 4**0.5) / (1 / 4**0.5 + 1)),
        (1, ["a", "x"], {"a", "b", "c"}, (1 / 4) / (1 / 4 + 1 + 1)),  # c has no train data: as one user's
        (2, ["a", "c"], {"a", "b", "c"}, (1 / 16 + 1) / (1 / 16 + 1 + 1)),
        (0.5, ["a"], {"a"}, 1.0),
        (0.5, ["b"], {"a"}, 0.0),
    ],
)
def test_golden_vectors(power: float, listed: list[str], truth: set[str], expected: float) -> None:
    (value,) = evaluate(
        f"recall(propensity=popularity, power={power})@2",
        lists=[listed],
        truth=[truth],
        train=TRAIN,
        catalogue="abcdx",
    )
    assert value == pytest.approx(expected, rel=1e-15)


D = [0, 1, 1 / np.log2(3), 1 / 2]  # discounts of the ranks from 1


@pytest.mark.parametrize(
    ("name", "power", "listed", "truth", "expected"),
    [
        # Weights: a 4^-power, b, c and d 1. Average precision: precisions at the hits, weighted.
        ("ap", 0.5, "axb", "abc", (1 / 2 * 1 + 1 * 2 / 3) / (1 / 2 + 1 + 1)),
        ("ap", 1, "bxa", "abc", (1 * 1 + 1 / 4 * 2 / 3) / (1 / 4 + 1 + 1)),
        ("ap", 1, "xcb", "ab", (1 * 1 / 3) / (1 / 4 + 1)),
        ("ap", 0.5, "ab", "ab", 1.0),
        ("ap", 2, "a", "a", 1.0),
        ("ap", 2, "x", "a", 0.0),
        # nDCG: weighted gains against the best list of these, b before a.
        ("ndcg", 1, "ab", "ab", (1 / 4 * D[1] + 1 * D[2]) / (1 * D[1] + 1 / 4 * D[2])),
        ("ndcg", 1, "ba", "ab", 1.0),
        ("ndcg", 0.5, "xa", "abc", (1 / 2 * D[2]) / (1 * D[1] + 1 * D[2] + 1 / 2 * D[3])),
        ("ndcg", 0.5, "a", "a", 1.0),
        ("ndcg", 0.5, "x", "a", 0.0),
        # Ratings are gains: 4 of a, 2 of b; weighted by 1/4 and 1.
        ("ndcg", 1, "ab", {"a": 4, "b": 2}, (4 / 4 * D[1] + 2 * D[2]) / (2 * D[1] + 4 / 4 * D[2])),
        ("ndcg(gain=exp2, {})", 1, "a", {"a": 4, "b": 2}, ((2**4 - 1) / 4) / ((2**4 - 1) / 4 * D[1] + 3 * D[2])),
    ],
)  # fmt: skip
def test_golden_vectors_of_ranks(name, power, listed, truth, expected):
    weights = f"propensity=popularity, power={power}"
    (value,) = evaluate(
        f"{name.format(weights) if '{}' in name else f'{name}({weights})'}@3",
        lists=[list(listed)],
        truth=[truth if isinstance(truth, dict) else set(truth)],
        train=TRAIN,
        catalogue="abcdx",
    )
    assert value == pytest.approx(expected, rel=1e-15)


def drawn(seed: int) -> tuple[TopN, Interactions, Interactions]:
    """Return lists, truth and train data of 80 users and 40 items."""
    rng = np.random.default_rng(seed)
    item = np.argsort(rng.random((80, 40)), axis=1)[:, :12].astype(np.int32)

    def interactions(density: float) -> Interactions:
        user, held = np.nonzero(rng.random((80, 40)) < density * np.linspace(2, 0.1, 40))
        rating = rng.integers(1, 6, len(user))
        return coded(user, held, rating, users=80, items=40)

    return (
        TopN(np.arange(80, dtype=np.int32), item, np.zeros(item.shape)),
        interactions(0.2),
        interactions(0.3),
    )


@pytest.mark.parametrize("threshold", [None, 4.0])
@pytest.mark.parametrize("metric", ["recall{}@5", "ap{}@5", "ndcg{}@5", "ndcg{}", "ndcg{}(gain=binary)@5"])
def test_power_0_is_the_plain_metric_to_the_last_bit(metric: str, threshold: float | None) -> None:
    top_n, truth, train = drawn(0)
    weights = "propensity=popularity, power=0"
    weighted_name = (
        metric.format("").replace("(", f"({weights}, ") if "(" in metric else metric.format(f"({weights})")
    )
    specs = [parse(name) for name in (metric.format(""), weighted_name)]
    blocks = Blocks.of(top_n, truth, train=train, relevance=Relevance(threshold=threshold))
    plain, weighted = score_top_n(blocks, specs).values.T
    np.testing.assert_array_equal(plain, weighted)
    assert np.isnan(plain).any() or threshold is None


def test_all_relevant_items_make_exactly_1_and_no_train_data_of_any_makes_the_plain_recall() -> None:
    name = "recall(propensity=popularity, power=0.7)@40"
    top_n, truth, train = drawn(1)
    relevant = [set(truth.item[truth.user == user].tolist()) for user in range(80)]
    lists = [sorted(items, reverse=True) for items in relevant]
    known = [set(train.item[train.user == user].tolist()) for user in range(80)]
    values = evaluate(name, lists=lists, truth=relevant, train=known)
    assert [value for value in values if value == value] == [1.0] * sum(map(bool, relevant))
    listed = top_n.item.tolist()
    cold = evaluate(name, lists=listed, truth=relevant, train=[set()] * 80)
    np.testing.assert_array_equal(cold, evaluate("recall@40", lists=listed, truth=relevant))


@pytest.mark.parametrize("name", ["ap", "ndcg(gain=binary)", "ndcg"])
def test_equal_popularity_is_the_plain_metric(name: str) -> None:
    top_n, truth, _ = drawn(3)
    train = coded(np.arange(80), np.arange(80) % 40, users=80, items=40)  # fmt: skip
    weighted = name.replace(")", ", ") if "(" in name else f"{name}("
    names = f"{name}@8", f"{weighted}propensity=popularity, power=0.7)@8"
    plain, with_weights = score_top_n(Blocks.of(top_n, truth, train=train), list(map(parse, names))).values.T
    np.testing.assert_allclose(with_weights, plain, rtol=1e-14)


@pytest.mark.parametrize("name", ["ap", "ndcg"])
def test_values_are_from_0_to_1_and_all_relevant_items_first_make_1(name: str) -> None:
    top_n, truth, train = drawn(4)
    metric = parse(f"{name}(propensity=popularity, power=0.7)@12")
    values = score_top_n(Blocks.of(top_n, truth, train=train), [metric]).values
    assert np.nanmin(values) >= 0
    assert np.nanmax(values) <= 1
    relevant = [set(truth.item[truth.user == user].tolist()) for user in range(80)]
    known = [set(train.item[train.user == user].tolist()) for user in range(80)]
    counts = np.maximum(train.item_counts, 1)
    best_first = [sorted(items, key=lambda item: counts[item])[:12] for items in relevant]
    best = evaluate(metric.name, lists=best_first, truth=[set(items) for items in best_first], train=known)
    assert [value for value in best if value == value] == [1.0] * sum(map(bool, relevant))


def test_the_weights_remove_the_bias_of_a_log_with_known_propensities() -> None:
    rng = np.random.default_rng(7)
    users, items, k, power, draws = 60, 300, 30, 0.5, 300
    popularity = np.geomspace(
        400, 1, items
    ).round()  # counts of the train data, from which the chances follow
    relevant = rng.random((users, items)) < 0.4
    listed = np.argsort(-(np.log(popularity) + rng.normal(0, 2, (users, items))), axis=1)[:, :k]
    found = np.zeros((users, items), dtype=bool)
    found[np.arange(users)[:, None], listed] = True
    full = ((found & relevant).sum(axis=1) / relevant.sum(axis=1)).mean()

    chance = (popularity / popularity.max()) ** power
    train = [
        {item for item in range(items) if popularity[item] > user} for user in range(int(popularity.max()))
    ]
    top_n = TopN(np.arange(users, dtype=np.int32), listed.astype(np.int32), np.zeros(listed.shape))
    pairs = np.array([(u, i) for u, row in enumerate(train) for i in row]).T
    ids = {"users": len(train), "items": items}
    specs = [parse(f"recall@{k}"), parse(f"recall(propensity=popularity, power={power})@{k}")]
    estimates = []
    for _ in range(draws):
        truth = coded(*np.nonzero(relevant & (rng.random((users, items)) < chance)), **ids)
        values = score_top_n(Blocks.of(top_n, truth, train=coded(*pairs, **ids)), specs).values[:users]
        estimates.append(np.nanmean(values, axis=0))
    plain, weighted = np.mean(estimates, axis=0)
    assert plain / full > 1.4
    assert weighted / full == pytest.approx(1, abs=0.05)


def test_names_show_the_parameters_and_plain_names_are_as_before() -> None:
    spec = parse("recall( power=0.50, propensity=popularity )@10")
    assert spec.name == "recall(propensity=popularity, power=0.5)@10"
    assert parse(spec.name) == spec
    assert spec.metric.needs == ("train",)
    assert parse("recall@10").name == "recall@10"
    assert parse("recall@10").metric.needs == ()
    pinned = "bed798304d66cb15"
    assert definitions_hash([parse("recall@10"), parse("ndcg@10")])[:16] == pinned


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("recall(propensity=popularity)@10", "propensity=popularity needs power, for example power=0.5"),
        ("recall(power=0.5)@10", "power goes with propensity=popularity only"),
        (
            "recall(denominator=min, propensity=popularity, power=1)@10",
            "propensity=popularity goes with denominator=relevant only",
        ),
        ("recall(propensity=popularity, power=-1)@10", "power"),
        ("recall(propensity=popular, power=1)@10", "did you mean 'popularity'"),
        ("ap(denominator=min, propensity=popularity, power=1)@10", "goes with denominator=relevant only"),
        ("ndcg(ideal=listed, propensity=popularity, power=1)@10", "goes with ideal=truth only"),
        ("ndcg(cut=truth, propensity=popularity, power=1)@10", "goes with cut=full only"),
        ("ndcg(propensity=popularity)@10", "propensity=popularity needs power"),
        ("hit(propensity=popularity, power=0.5)@10", "hit takes no propensity: a mean over relevant items"),
        ("precision(propensity=popularity, power=0.5)@10", "it could exceed 1; recall, ap and ndcg can"),
        ("rr(propensity=popularity, power=0.5)@10", "rr takes no propensity: the first relevant item that"),
        ("dcg(propensity=popularity, power=0.5)@10", "dcg takes no propensity: weights have no scale"),
    ],
)
def test_what_is_not_sound_is_refused(name: str, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse(name)
    assert message in str(caught.value)


def test_without_train_data_it_is_refused() -> None:
    top_n, truth, _ = drawn(2)
    with pytest.raises(DataError, match=r"metric recall\(.*\)@5 needs the train data"):
        score_top_n(Blocks.of(top_n, truth), [parse("recall(propensity=popularity, power=1)@5")])
