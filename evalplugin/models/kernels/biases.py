"""Biases of users and items, with the bits of scikit-surprise."""

from __future__ import annotations

from typing import NamedTuple

from evalplugin.models.kernels.compiled import Entries, FloatsOut, compiled


class BiasOptions(NamedTuple):
    """The parameters of a fit of biases; a method uses its own."""

    mean: float  # of all ratings
    n_epochs: int
    reg_u: float
    reg_i: float
    reg: float
    rate: float


@compiled
def als(
    by_user: Entries, by_item: Entries, options: BiasOptions, user_bias: FloatsOut, item_bias: FloatsOut
) -> None:
    """Fit the biases by alternating least squares.

    Args:
        by_user, by_item: The ratings of each user, and of each item.
        options: The parameters.
        user_bias, item_bias: The output; zeros before.
    """
    u_indptr, u_item, u_rating = by_user
    i_indptr, i_user, i_rating = by_item
    mean, n_epochs, reg_u, reg_i, _, _ = options
    for _ in range(n_epochs):
        for item in range(len(i_indptr) - 1):
            total = 0.0
            for entry in range(i_indptr[item], i_indptr[item + 1]):
                total += i_rating[entry] - mean - user_bias[i_user[entry]]
            item_bias[item] = total / (reg_i + (i_indptr[item + 1] - i_indptr[item]))
        for user in range(len(u_indptr) - 1):
            total = 0.0
            for entry in range(u_indptr[user], u_indptr[user + 1]):
                total += u_rating[entry] - mean - item_bias[u_item[entry]]
            user_bias[user] = total / (reg_u + (u_indptr[user + 1] - u_indptr[user]))


@compiled
def sgd(by_user: Entries, options: BiasOptions, user_bias: FloatsOut, item_bias: FloatsOut) -> None:
    """Fit the biases by stochastic gradient descent, in the order of the ratings; arguments are those of ``als``."""
    u_indptr, u_item, u_rating = by_user
    mean, n_epochs, _, _, reg, rate = options
    for _ in range(n_epochs):
        for user in range(len(u_indptr) - 1):
            for entry in range(u_indptr[user], u_indptr[user + 1]):
                item = u_item[entry]
                error = u_rating[entry] - (mean + user_bias[user] + item_bias[item])
                user_bias[user] += rate * (error - reg * user_bias[user])
                item_bias[item] += rate * (error - reg * item_bias[item])
