"""Fits of scikit-surprise algorithms from arrays, to the bit those that Surprise computes from its lists."""

from __future__ import annotations

from functools import cache
from typing import Any

from evalplugin.base.arrays import Floats
from evalplugin.base.libraries import np, surprise
from evalplugin.models.surprise.ratings import RatingLists, Ratings

_EXACT = 2.0**53  # whole numbers up to here are exact


def similarity_is_ours(name: str, ratings: Floats, longest: int) -> bool:
    """Return whether the kernels compute this similarity of these ratings to the bit as Surprise does.

    For cosine, msd and pearson of half or whole stars every sum is exact, whatever the order and however a compiler
    fuses operations. Other sums are rounded: the kernels add in the order of Surprise and are compared with it once, as
    its compiler may have fused products with sums on some processors. ``longest`` is the highest number of ratings of
    one user or item.
    """
    doubled = 2 * ratings
    exact = bool((doubled == np.rint(doubled)).all())
    largest = float(np.abs(doubled).max(initial=0.0))
    exact = exact and 4 * (longest * largest) ** 2 < _EXACT
    return (exact and name != "pearson_baseline") or _agrees(name)


def similarity(algorithm: Any, ratings: Ratings) -> Floats:
    """Return the result of ``algorithm.compute_similarities()``, computed faster and in less memory.

    As there, the similarity pearson_baseline also sets the baselines of the algorithm. ``ratings`` are those of the
    algorithm's trainset, all lists ascending.

    Raises:
        ZeroDivisionError: Where Surprise raises it: a similarity is undefined.
    """
    options = algorithm.sim_options
    name = options.get("name", "msd").lower()
    by_x = ratings.sides(options["user_based"])[0]
    if not similarity_is_ours(name, by_x.rating, int(np.diff(by_x.indptr).max())):
        result: Floats = algorithm.compute_similarities()
        return result
    return _our_similarity(name, algorithm, ratings)


def baselines(algorithm: Any, ratings: Ratings) -> tuple[Floats, Floats]:
    """Return the result of ``algorithm.compute_baselines()``, biases of users and items, without a loop in Python."""
    if not _agrees("baselines"):
        result: tuple[Floats, Floats] = algorithm.compute_baselines()
        return result
    return _our_baselines(algorithm, ratings)


def means(lists: RatingLists) -> Floats:
    """Return the mean rating of each list: float64 (n,), by the same NumPy calls as in Surprise."""
    return np.array([np.mean(row) for row in _rows(lists)])


def standard_deviations(lists: RatingLists, overall: float) -> Floats:
    """Return the standard deviation of each list, ``overall`` where it is zero: float64 (n,)."""
    deviations = np.array([np.std(row) for row in _rows(lists)])
    return np.where(deviations == 0.0, overall, deviations)


def _rows(lists: RatingLists) -> list[Floats]:
    return np.split(lists.rating, lists.indptr[1:-1])


def _our_similarity(name: str, algorithm: Any, ratings: Ratings) -> Floats:
    from evalplugin.models.kernels.similarity import IndexedRatings, similarities

    options = algorithm.sim_options
    by_x, by_y = ratings.sides(options["user_based"])
    values = by_x.rating
    if name == "pearson_baseline":
        if algorithm.bu is None:
            algorithm.bu, algorithm.bi = _our_baselines(algorithm, ratings)
        of_x, of_y = (algorithm.bu, algorithm.bi) if options["user_based"] else (algorithm.bi, algorithm.bu)
        values = values - ((algorithm.trainset.global_mean + of_y[by_x.other]) + of_x[by_x.own])
    indexed = IndexedRatings.of(by_x.arrays._replace(value=values), by_y.indptr, by_y.other)
    return similarities(name, indexed, options.get("min_support", 1), float(options.get("shrinkage", 100)))


def _our_baselines(algorithm: Any, ratings: Ratings) -> tuple[Floats, Floats]:
    from evalplugin.models.kernels import biases

    options = algorithm.bsl_options
    is_als = options.get("method", "als") == "als"
    of_fit = biases.BiasOptions(
        float(algorithm.trainset.global_mean),
        options.get("n_epochs", 10 if is_als else 20),
        reg_u=float(options.get("reg_u", 15)),
        reg_i=float(options.get("reg_i", 10)),
        reg=float(options.get("reg", 0.02)),
        rate=float(options.get("learning_rate", 0.005)),
    )
    user_bias, item_bias = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
    if is_als:
        biases.als(ratings.by_user.arrays, ratings.by_item.arrays, of_fit, user_bias, item_bias)
    else:
        biases.sgd(ratings.by_user.arrays, of_fit, user_bias, item_bias)
    return user_bias, item_bias


@cache
def _agrees(name: str) -> bool:
    """Return whether kernels and Surprise agree to the bit on ratings whose sums round at every step.

    ``name`` is a similarity, or "baselines".
    """
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((30, 40)) < 0.6)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=30))])
    by_user = RatingLists(indptr, item.astype(np.int32), rng.normal(3.0, 1.0, len(item)))
    ratings = Ratings(by_user, by_user.transposed(40))
    trainset = surprise.Trainset(
        by_user.to_surprise(), ratings.by_item.to_surprise(), 30, 40, len(item), (1, 5), {}, {}
    )
    if name == "baselines":
        pairs = []
        for method in ("als", "sgd"):
            algorithm = surprise.BaselineOnly(bsl_options={"method": method}, verbose=False).fit(trainset)
            pairs.append((_our_baselines(algorithm, ratings), (algorithm.bu, algorithm.bi)))
        return all(np.array_equal(a, b) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True))
    algorithm = surprise.KNNBasic(sim_options={"name": name}, verbose=False).fit(trainset)
    algorithm.bu = algorithm.bi = None
    return np.array_equal(_our_similarity(name, algorithm, ratings), algorithm.sim)
