"""Published or worked-out values, written as arithmetic."""

from __future__ import annotations

from math import isnan, log, log2, sqrt

import pytest

from evalplugin.base.errors import DataError, ParameterError
from evalplugin.metrics import METRICS, evaluate, parse


def one(name: str, listed: list[int] | list[str], truth: object, **options: object) -> float:
    (value,) = evaluate(name, lists=[listed], truth=[truth], **options)
    return value


def rated(*gains: float) -> dict[int, float]:
    return dict(enumerate(gains, start=1))


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-12, abs=1e-12)


def printed(values: object, digits: int = 6) -> object:
    """Equal to what a publication prints with some digits after the point."""
    return pytest.approx(values, rel=0, abs=0.500001 * 10**-digits)


def test_precision_of_two_users() -> None:
    assert evaluate("precision@2", lists=[[1, 2], [4, 5]], truth=[{1}, {4, 5}]) == [1 / 2, 2 / 2]


@pytest.mark.parametrize(("relevant", "rr"), [("A", 1), ("B", 1 / 2), ("C", 1 / 3), ("D", 1 / 4), ("X", 0)])
def test_rr_is_one_over_the_rank_of_the_first_hit(relevant: str, rr: float) -> None:
    assert one("rr", list("ABCD"), {relevant}) == rr


def test_rr_looks_at_the_first_hit_only_and_not_below_k() -> None:
    assert one("rr", list("ABCD"), {"B", "C"}) == 1 / 2
    assert one("rr@1", list("ABCD"), {"B", "C"}) == 0


def test_ap_over_hits() -> None:
    assert one("ap(denominator=hits)", list("ABCDE"), {"A", "C", "D"}) == close((1 + 2 / 3 + 3 / 4) / 3)


def test_ap_of_ten_relevant_items_four_of_them_found() -> None:
    listed, truth = [1, 2, 13, 14, 5, 16, 17, 8], {1, 2, 5, 8, 21, 22, 23, 24, 25, 26}
    assert [one(f"precision@{k}", listed, truth) for k in (1, 2, 5, 8)] == [1, 1, 3 / 5, 4 / 8]
    assert one("ap", listed, truth) == close((1 + 1 + 3 / 5 + 4 / 8) / 10) == close(0.31)
    assert one("ap(denominator=hits)", listed, truth) == close(0.775)


def test_ndcg_with_logarithm_to_base_2() -> None:
    dcg = 4 / 1 + 3 / 1 + 0 / log2(3) + 5 / 2
    ideal = 5 / 1 + 4 / 1 + 3 / log2(3) + 0
    assert dcg == 9.5
    assert ideal == printed(10.892789)
    assert one("dcg(discount=log, base=2)", [1, 2, 3, 4], rated(4, 3, 0, 5)) == close(dcg)
    assert one("ndcg(discount=log, base=2)", [1, 2, 3, 4], rated(4, 3, 0, 5)) == close(dcg / ideal)
    assert dcg / ideal == printed(0.872137)


def test_ndcg_of_large_gains() -> None:
    truth = rated(10, 20, 3, 7, 10)
    dcg, ideal = 10 / 1 + 20 / log2(3) + 3 / 2, 20 / 1 + 10 / log2(3) + 10 / 2
    assert [dcg, ideal, dcg / ideal] == printed([24.118595, 31.309298, 0.770333])
    assert one("dcg@3", [1, 2, 3, 4, 5], truth) == close(dcg)
    assert one("ndcg@3", [1, 2, 3, 4, 5], truth) == close(dcg / ideal)


def test_dcg_of_jarvelin_and_kekalainen() -> None:
    truth = rated(3, 2, 3, 0, 0, 1, 2, 2, 3, 0)
    published = [3, 5, 6.89, 6.89, 6.89, 7.28, 7.99, 8.66, 9.61, 9.61]
    listed = list(range(1, 11))
    values = [one(f"dcg(discount=log, base=2)@{k}", listed, truth) for k in range(1, 11)]
    assert [round(v, 2) for v in values] == published
    assert values[5] == close(3 + 2 / 1 + 3 / log2(3) + 1 / log2(6))


def test_half_life_discount() -> None:
    assert one("ndcg(discount=halflife, alpha=2)", [2, 1], {1: 5.0, 2: 2.5}) == close(
        (2.5 + 5 / 2) / (5 + 2.5 / 2)
    )
    assert one("dcg(discount=halflife, alpha=5)", [9, 8, 7, 6, 1], {1: 4.0}) == close(
        4 / 2
    )  # half at rank alpha


def test_a_half_life_so_short_that_the_discount_overflows_leaves_the_first_rank() -> None:
    assert one("dcg(discount=halflife, alpha=1.0001)", [1, 2, 3], {1: 4.0, 3: 5.0}) == 4


def test_a_list_of_five_with_two_of_three_found() -> None:
    listed, truth = [1, 2, 3, 4, 5], {1, 3, 6}
    assert one("ap@5", listed, truth) == close((1 + 2 / 3) / 3)
    assert one("ap(denominator=k)@5", listed, truth) == close((1 + 2 / 3) / 5)
    assert one("ap(denominator=hits)@5", listed, truth) == close((1 + 2 / 3) / 2)
    assert one("ndcg@5", listed, truth) == close((1 + 1 / log2(4)) / (1 + 1 / log2(3) + 1 / log2(4)))
    assert one("ndcg@5", listed, truth) == printed(0.703918)
    assert one("rr", listed, truth) == 1


def test_a_list_shorter_than_what_is_relevant() -> None:
    listed, truth = [1, 2, 3, 4, 5], {1, 3, 6, 7, 8, 9, 10}
    assert one("recall@5", listed, truth) == close(2 / 7)
    assert one("ap@5", listed, truth) == close((1 + 2 / 3) / 7)
    assert one("ap(denominator=min)@5", listed, truth) == close((1 + 2 / 3) / 5)


def test_ndcg_at_6_with_both_gains() -> None:
    truth, listed = rated(3, 2, 3, 0, 1, 2, 3, 2), [1, 2, 3, 4, 5, 6]
    got = [3, 2, 3, 0, 1, 2]
    best = [3, 3, 3, 2, 2, 2]
    linear = sum(g / log2(r + 1) for r, g in enumerate(got, 1)) / sum(
        g / log2(r + 1) for r, g in enumerate(best, 1)
    )
    exp2 = sum((2**g - 1) / log2(r + 1) for r, g in enumerate(got, 1)) / sum(
        (2**g - 1) / log2(r + 1) for r, g in enumerate(best, 1)
    )
    assert [linear, exp2] == printed([0.785002, 0.751083])
    assert one("ndcg@6", listed, truth) == close(linear)
    assert one("ndcg(gain=exp2)@6", listed, truth) == close(exp2)


def test_ap_and_recall_at_each_of_three_cutoffs() -> None:
    listed, truth = [1, 2, 3], {1, 3, 4, 5}
    assert [one(f"ap(denominator=min)@{k}", listed, truth) for k in (1, 2, 3)] == [1, 1 / 2, close(5 / 9)]
    assert [one(f"recall@{k}", listed, truth) for k in (1, 2, 3)] == [1 / 4, 1 / 4, 1 / 2]


def test_rbp_of_hits_at_ranks_1_and_2() -> None:
    assert one("rbp(p=0.5)", [1, 2, 3], {1, 2}) == 0.75
    assert one("rbp", [1, 2, 3], {1, 3}) == close(0.2 * (1 + 0.8**2))


def test_f1_is_the_harmonic_mean() -> None:
    precision, recall = 2 / 4, 2 / 3
    assert one("f1@4", [1, 2, 3, 4], {1, 4, 9}) == close(2 * precision * recall / (precision + recall))
    assert one("f1@4", [1, 2, 3, 4], {9}) == 0


def test_r_precision_cuts_at_the_number_of_relevant_items() -> None:
    assert one("r_precision", [1, 2, 3, 4], {1, 4, 9}) == 1 / 3
    assert one("r_precision", [1], {1, 4, 9}) == 1 / 3  # places behind the end of the list are misses


def test_the_natural_logarithm_and_the_cut_at_the_truth() -> None:
    truth = {1: 1.0, 4: 1.0}
    assert one("dcg(discount=ln)", [1, 2, 3, 4], truth) == close(1 / log(2) + 1 / log(5))
    assert one("dcg(discount=ln, cut=truth)", [1, 2, 3, 4], truth) == close(1 / log(2))
    assert one("dcg(cut=truth)@1", [4, 1], truth) == 1


def test_binary_gain_is_worth_one_where_relevant() -> None:
    truth = {1: 5.0, 2: 3.0, 3: 4.0}
    assert one("dcg(gain=binary)", [1, 2, 3], truth, threshold=4) == close(1 + 1 / log2(4))
    ideal = 1 + 1 / log2(3)
    assert one("ndcg(gain=binary)", [1, 2, 3], truth, threshold=4) == close((1 + 1 / log2(4)) / ideal)


def test_graded_gain_stays_the_rating_below_the_threshold() -> None:
    truth = {1: 5.0, 2: 3.0}
    assert one("dcg", [2, 1], truth, threshold=4) == close(3 + 5 / log2(3))
    assert one("precision@2", [2, 1], truth, threshold=4) == 1 / 2


def test_a_short_list_is_filled_up_with_misses() -> None:
    assert one("precision@4", [1, 2], {1, 2}) == 2 / 4
    assert one("ap(denominator=k)@4", [1, 2], {1, 2}) == 2 / 4


def test_without_k_the_whole_list_counts() -> None:
    assert one("precision", [1, 2, 3, 4], {4}) == 1 / 4


@pytest.mark.parametrize(
    ("relevant", "auc"), [({4}, 0), ({3}, 1 / 3), ({2}, 2 / 3), ({1}, 1), ({1, 3}, 3 / 4), ({2, 4}, 1 / 4)]
)
def test_auc_of_a_list_of_all_four_candidates(relevant: set[int], auc: float) -> None:
    assert one("auc", [1, 2, 3, 4], relevant) == close(auc)


def test_auc_is_undefined_where_every_candidate_is_relevant() -> None:
    assert isnan(one("auc", [1, 2, 3, 4], {1, 2, 3, 4}))


def test_auc_counts_relevant_items_that_are_not_listed_as_last() -> None:
    assert one("auc", [1, 2, 3, 4], {2, 9}) == close((2 / 3 + 0) / 2)
    assert one("auc", [1, 2], {1, 2, 9}, catalogue=[3]) == close(2 / 3)  # as if a non-relevant item followed
    assert one("auc", [], {1}, catalogue=[2]) == 0


def test_bpref_counts_only_what_was_judged() -> None:
    truth = {1: 1.0, 2: 0.0, 3: 1.0, 4: 0.0, 5: 0.0, 6: 1.0}  # R = 3, N = 3
    assert one("bpref", [9, 1, 2, 8, 4, 3], truth) == close((1 + (1 - 2 / 3)) / 3)
    assert one("bpref", [2, 4, 5, 1, 3, 6], truth) == 0
    assert one("bpref", [9, 8, 1, 3, 6], truth) == 1
    assert (
        one("bpref", [2, 4, 5, 1], {1: 1.0, 2: 0.0, 4: 0.0, 5: 0.0}) == 0
    )  # no more than R count, and R = 1
    assert one("bpref", [2, 1, 3], {1: 5.0, 2: 2.0, 3: 4.0, 7: 1.0}, threshold=3) == close(
        (1 - 1 / 2) * 2 / 2
    )


def test_interpolated_precision_is_the_best_at_any_recall_from_the_level_on() -> None:
    listed, truth = [1, 11, 2, 12, 13, 3, 14, 15, 16, 17], {1, 2, 3, 4, 5}
    at = {0: 1, 0.2: 1, 0.21: 2 / 3, 0.4: 2 / 3, 0.5: 3 / 6, 0.6: 3 / 6, 0.61: 0, 1: 0}
    for level, precision in at.items():
        assert one(f"precision_at_recall(level={level})", listed, truth) == close(precision)
    assert one("precision_at_recall", [11, 1, 2], truth) == close(2 / 3)  # the later rank is better


def test_spearman_of_ties_takes_mean_ranks() -> None:
    truth, predicted = [{1: 5.0, 2: 4.0, 3: 4.0, 4: 1.0}], [{1: 2.0, 2: 3.0, 3: 1.0, 4: 0.0}]
    # ranks 4, 2.5, 2.5, 1 and 3, 4, 2, 1; their mean is 2.5
    covariance = 1.5 * 0.5 + 0 + 0 + 1.5 * 1.5
    assert evaluate("spearman", lists=[[]], truth=truth, predictions=predicted) == [
        close(covariance / sqrt((1.5**2 + 1.5**2) * (0.5**2 + 1.5**2 + 0.5**2 + 1.5**2)))
    ]


def test_pairs_of_a_truth_with_ties() -> None:
    truth, predicted = [{1: 5.0, 2: 4.0, 3: 4.0, 4: 1.0}], [{1: 2.0, 2: 3.0, 3: 2.0, 4: 0.0}]
    # different ratings: 12 wrong, 13 tied, 14 right, 24 right, 34 right; 23 has the same rating
    assert evaluate("concordant_pairs", lists=[[]], truth=truth, predictions=predicted) == [
        close((3 + 0.5) / 5)
    ]
    wrong = evaluate("concordant_pairs(ties=wrong)", lists=[[]], truth=truth, predictions=predicted)
    assert wrong == [close(3 / 5)]
    kendall = evaluate("kendall", lists=[[]], truth=truth, predictions=predicted)
    assert kendall == [close((3 - 1) / sqrt((6 - 1) * (6 - 1)))]


@pytest.mark.parametrize(("name", "chance"), [("spearman", 0), ("kendall", 0), ("concordant_pairs", 0.5)])
def test_equal_predictions_order_nothing_and_equal_ratings_are_undefined(name: str, chance: float) -> None:
    truth = [{1: 5.0, 2: 4.0}, {1: 4.0, 2: 4.0}, {1: 4.0}, {}]
    predicted = [{1: 3.0, 2: 3.0}, {1: 3.0, 2: 2.0}, {1: 2.0}, {}]
    first, *others = evaluate(name, lists=[[]] * 4, truth=truth, predictions=predicted)
    assert first == chance
    assert all(map(isnan, others))


TRAIN = [{"a", "b"}, {"a", "b"}, {"a", "c"}, {"a"}]


def of_lists(name: str, *lists: str) -> list[float]:
    options = {"truth": [{}] * len(lists), "train": TRAIN, "catalogue": "abcde"}
    return evaluate(name, lists=[list(listed) for listed in lists], **options)


def test_novelty_is_the_mean_information_of_what_is_listed() -> None:
    values = of_lists("novelty@3", "abc", "ce", "d")
    assert values == [close((0 + 1 + 2) / 3), close((2 + 2) / 2), 2]  # never met counts as met once


def test_popularity_is_the_mean_number_of_users() -> None:
    assert of_lists("popularity@2", "abc", "ce", "d") == [(4 + 2) / 2, 1 / 2, 0]


def test_diversity_is_one_less_the_mean_cosine_of_all_pairs() -> None:
    ab, ac, bc = 2 / sqrt(4 * 2), 1 / sqrt(4 * 1), 0
    values = of_lists("diversity@3", "abc", "ab", "ad", "de")
    assert values == [close(1 - (ab + ac + bc) / 3), close(1 - ab), 1, 1]
    assert all(map(isnan, of_lists("diversity@1", "abc", "a")))


def test_serendipity_leaves_out_what_the_popularity_list_would_have_shown() -> None:
    # Not met, most popular first: c, d and e (tied) for the first two, b, d and e for the third, b, c, d and e.
    options = {"lists": [list("cd")] * 4, "truth": [set("cd")] * 4, "train": TRAIN, "catalogue": "abcde"}
    assert evaluate("serendipity@1", **options) == [0, 0, 1, 1]
    assert evaluate("serendipity@2", **options) == [0, 0, 1 / 2, 1 / 2]
    met = evaluate("serendipity@1", lists=[["a"]], truth=[{"a"}], train=TRAIN, catalogue="abcde")
    assert met == [1]  # what the user has met already, no popularity list shows


def test_gini_of_evenly_and_unevenly_listed_items() -> None:
    assert of_lists("gini@1", *"abcde") == [0]
    assert of_lists("gini@1", *"aaaaa") == [1 - 1 / 5]
    # counts 0 0 1 2 3: (2 i - 6) c_i / (5 * 6)
    assert of_lists("gini@1", *"aaabbc") == [close((0 * 1 + 2 * 2 + 4 * 3) / (5 * 6))]


def test_entropy_in_bits() -> None:
    assert of_lists("entropy@1", *"abcd") == [2]
    assert of_lists("entropy@1", *"aab") == [close(2 / 3 * log2(3 / 2) + 1 / 3 * log2(3))]
    assert of_lists("entropy@1", *"aa") == [0]


def test_personalization_is_one_less_the_mean_overlap_of_pairs() -> None:
    overlaps = [1 / 2, 0, 1 / 2]  # ab and bc, ab and cd, bc and cd
    assert of_lists("personalization@2", "ab", "bc", "cd") == [close(1 - sum(overlaps) / 3)]
    # of a short list, a and b of the long one are seen by none, c by one; c of the short one by one
    assert of_lists("personalization@3", "abc", "c", "") == [close(1 - (0 + 0 + 1 + 1) / 4)]
    assert of_lists("personalization@2", "ab", "ab") == [0]


@pytest.mark.parametrize("name", ["gini@2", "exposure_gini@2", "entropy@2", "personalization@2"])
def test_a_metric_of_all_lists_is_undefined_without_any(name: str) -> None:
    assert isnan(of_lists(name, "", "")[0])


@pytest.mark.parametrize("name", ["novelty@2", "popularity@2", "aplt@2", "aclt@2", "diversity@2"])
def test_a_metric_about_lists_is_over_everybody_who_has_one(name: str) -> None:
    listed, empty = of_lists(name, "ab", "")
    assert not isnan(listed)
    assert isnan(empty)


def test_denominators_of_other_libraries() -> None:
    listed, truth = [1, 2], {1, 3, 4, 5, 6}
    assert one("precision(denominator=listed)@4", listed, truth) == 1 / 2
    assert one("precision(denominator=listed)@4", [], truth) == 0
    assert one("recall(denominator=min)@4", listed, truth) == 1 / 4
    assert one("recall(denominator=min)@10", listed, truth) == 1 / 5
    assert one("ap(denominator=listed)@4", listed, truth) == 1 / 2
    assert one("ap(denominator=listed)@4", [], truth) == 0


def test_ideal_lists_of_other_libraries() -> None:
    listed, truth = [2, 1], {1, 3, 4}
    dcg, full = 1 / log2(3), 1 + 1 / log2(3) + 1 / log2(4) + 1 / log2(5)
    assert one("ndcg(ideal=listed)@4", listed, truth) == close(dcg / (1 + 1 / log2(3)))
    assert one("ndcg(gain=binary, ideal=k)@4", listed, truth) == close(dcg / full)
    assert one("ndcg(ideal=listed)@4", [], truth) == 0
    with pytest.raises(ParameterError, match="ideal=k goes with gain=binary and without cut=truth only"):
        parse("ndcg(ideal=k)@4")


# Metrics of lists and truth alone; those of a new module are among them by themselves.
RANKING = [
    f"{entry.name}@2" if parse(entry.name).metric.takes_k else entry.name
    for entry in METRICS
    if entry.cls.scope == "user" and not entry.cls.needs
]


@pytest.mark.parametrize("name", RANKING)
def test_a_user_with_truth_and_without_a_list_scores_zero(name: str) -> None:
    assert one(name, [], {1, 2}) == 0


@pytest.mark.parametrize("name", RANKING)
def test_a_user_without_relevant_truth_is_undefined_whatever_the_list(name: str) -> None:
    undefined = evaluate(name, lists=[[1, 2], [], [1, 2]], truth=[{}, {1: 3.0}, {1: 3.0}], threshold=4)
    assert all(map(isnan, undefined))


def test_ndcg_is_undefined_where_the_best_list_is_worth_nothing() -> None:
    assert isnan(one("ndcg", [1, 2], {1: 0.0}, threshold=0))
    assert one("dcg", [1, 2], {1: 0.0}, threshold=0) == 0


def test_rating_errors_are_those_of_the_whole_truth() -> None:
    truth, predictions = [{1: 4.0, 2: 2.0}, {1: 1.0}, {}], [{1: 3.0, 2: 2.5}, {1: 1.0}, {}]
    rmse = evaluate("rmse", lists=[[]] * 3, truth=truth, predictions=predictions)
    mae = evaluate("mae", lists=[[]] * 3, truth=truth, predictions=predictions)
    assert rmse[:2] == [close(((1 + 0.25) / 2) ** 0.5), 0]
    assert mae[:2] == [(1 + 0.5) / 2, 0]
    assert isnan(rmse[2])
    assert isnan(mae[2])


def test_pooled_rating_errors_weigh_every_rating_alike() -> None:
    # Three ratings of one user with errors 1, -0.5 and 2, one of another without an error, a user without truth.
    truth = [{1: 4.0, 2: 2.0, 3: 1.0}, {1: 1.0}, {}]
    predictions = [{1: 3.0, 2: 2.5, 3: 3.0}, {1: 1.0}, {}]
    given = {"lists": [[]] * 3, "truth": truth, "predictions": predictions}
    assert evaluate("rmse(pooled=true)", **given) == [close(((1 + 0.25 + 4 + 0) / 4) ** 0.5)]
    assert evaluate("mae(pooled=true)", **given) == [close((1 + 0.5 + 2 + 0) / 4)]
    users = [((1 + 0.25 + 4) / 3) ** 0.5, 0.0]
    assert evaluate("rmse", **given)[:2] == [close(value) for value in users]


@pytest.mark.parametrize("name", ["rmse(pooled=true)", "mae(pooled=true)"])
def test_pooled_rating_errors_are_undefined_without_truth_or_predictions(name: str) -> None:
    (no_truth,) = evaluate(name, lists=[[]], truth=[{}], predictions=[{}])
    (no_predictions,) = evaluate(name, lists=[[]], truth=[{1: 4.0}])
    assert isnan(no_truth)
    assert isnan(no_predictions)


def test_coverage_counts_each_listed_item_of_the_catalogue_once() -> None:
    lists, truth = [[1, 2, 3], [2, 1], []], [{1}, {9}, {1}]
    assert evaluate("coverage", lists=lists, truth=truth, catalogue=range(1, 11)) == [3 / 10]
    assert evaluate("coverage@2", lists=lists, truth=truth, catalogue=range(1, 11)) == [2 / 10]


@pytest.mark.parametrize(
    ("name", "ratings", "message"),
    [
        ("ndcg(gain=exp2)", (1, -1), "gain=exp2 needs ratings of 0 or more, but the truth has -1; "),
        ("dcg", (1, -0.5), "gain=linear needs ratings of 0 or more, but the truth has -0.5; "),
        ("dcg(gain=exp2)", (1, 5000), "gain=exp2 needs ratings up to 1000, but the truth has 5000; use"),
    ],
)
def test_ratings_that_a_gain_cannot_take_are_an_error(name, ratings, message):
    with pytest.raises(DataError) as caught:
        one(name, [1, 2], rated(*ratings))
    assert str(caught.value).startswith(message)


def test_negative_ratings_are_fine_with_binary_gain() -> None:
    assert one("ndcg(gain=binary)", [1, 2], rated(-3, 2)) == close(1 / log2(3))


def test_items_of_the_long_tail_are_those_outside_of_the_most_popular_with_a_share_of_the_train_data():
    # Users: a 4, b 2, c 1, d and e 0. Of the 7 interactions, a and b hold 6, which is the first sum >= 0.8 * 7 = 5.6.
    assert of_lists("aplt@3", "abc", "ce", "ab") == [1 / 3, 2 / 2, 0]
    assert of_lists("aclt@3", "abc", "ce", "ab") == [1, 2, 0]
    assert of_lists("aplt(tail=0.5)@3", "abc", "ce", "ab") == [close(2 / 3), 1, 1 / 2]  # a alone: 4 >= 3.5
    assert of_lists("aplt(tail=0.9)@3", "abc", "ce", "ab") == [
        0,
        1 / 2,
        0,
    ]  # 7 >= 6.3; none of the head is unmet


def test_equally_popular_items_are_all_in_the_head_or_all_in_the_tail() -> None:
    options = {"lists": [list("ab"), list("c")], "truth": [{}] * 2, "train": [{"a", "b", "c"}]}
    assert evaluate("aclt(tail=0.1)", **options) == [0, 0]
    alone = evaluate("aclt(tail=0.1)", **{**options, "train": [{"a", "b", "c"}, {"a"}]})
    assert alone == [1, 1]


def test_without_train_interactions_every_item_is_in_the_tail() -> None:
    assert evaluate("aclt", lists=[["a", "b"]], truth=[{}], train=[set()]) == [2]


def test_exposure_is_the_sum_of_discounts() -> None:
    # a: 1 + 1 / log2(3), b: 1 / log2(3), c: 1, d and e: 0; ascending, times 2 i - 6
    a, b, c = 1 + 1 / log2(3), 1 / log2(3), 1.0
    expected = (0 * b + 2 * c + 4 * a) / (5 * (a + b + c))
    assert of_lists("exposure_gini@2", "abc", "cad") == [close(expected)]
    assert of_lists("exposure_gini@1", *"aaabbc") == of_lists("gini@1", *"aaabbc")


def rates(*values: float) -> object:
    mean = sum(values) / len(values)
    return close(sqrt(sum((value - mean) ** 2 for value in values) / len(values)) / mean)


def test_parity_compares_the_rates_at_which_new_items_of_groups_are_listed() -> None:
    # The head is a and b, the tail c, d and e. Not met: c, d, e twice; b, d, e; b, c, d, e.
    # Listed of the new ones: c; e; b and c (a of the first and the last list are met).
    assert of_lists("popularity_parity@2", "ac", "de", "be", "bc") == [rates(2 / 2, 5 / (4 * 3 - 1))]
    # A user without a list is in no pair.
    assert of_lists("popularity_parity@1", "c", "", "b") == [rates(1 / 1, 1 / (2 * 3 - 1))]


def test_opportunity_compares_the_recall_of_groups() -> None:
    options = {"train": TRAIN, "catalogue": "abcde", "truth": [set("bc"), set("ade"), set("c")]}
    lists = [list("bac"), list("dcb"), []]
    # The head is a and b, relevant twice, hit once; the tail c, d, e, relevant four times.
    assert evaluate("popularity_opportunity@1", lists=lists, **options) == [rates(1 / 2, 1 / 4)]
    assert evaluate("popularity_opportunity@3", lists=lists, **options) == [close(0)]


def test_groups_by_an_attribute_hold_each_item_of_theirs() -> None:
    genre = {"genre": {"a": "War", "b": "War|Drama", "c": "Drama", "d": None}}
    options = {"lists": [["a", "d"], ["c"]], "truth": [set("ab"), set("cd")], "train": [set(), set()]}
    given = {**options, "item_attributes": genre}
    # War: a and b relevant, a hit; Drama: b and c relevant, c hit; d is of no group.
    assert evaluate("popularity_opportunity(groups=genre)", **given) == [0]
    assert evaluate("popularity_parity(groups=genre)", **given) == [0]


@pytest.mark.parametrize("name", ["popularity_parity", "popularity_opportunity"])
def test_an_empty_group_one_group_and_no_listed_item_leave_fairness_undefined(name: str) -> None:
    options = {"truth": [{"c"}], "train": [{"a"}, {"a"}, {"b"}], "catalogue": "abc"}
    assert isnan(evaluate(name, lists=[[]], **options)[0])
    # No item is in the tail.
    assert isnan(evaluate(name, lists=[["c"]], **{**options, "train": [set("abc")]})[0])
    one_group = {"item_attributes": {"genre": dict.fromkeys("abc", "War")}}
    assert isnan(evaluate(f"{name}(groups=genre)", lists=[["c"]], **options, **one_group)[0])


def test_a_tail_goes_with_groups_by_popularity() -> None:
    with pytest.raises(ParameterError, match="tail goes with groups=popularity only"):
        parse("popularity_parity(groups=genre, tail=0.5)@10")
