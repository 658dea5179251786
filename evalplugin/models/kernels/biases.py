"""Biases of users and items, to the bit those of scikit-surprise."""

from __future__ import annotations

from evalplugin.models.kernels.compiled import Codes, Floats, FloatsOut, Ints, compiled

__all__ = ["als", "sgd"]


@compiled
def als(
    u_indptr: Ints,
    u_item: Codes,
    u_rating: Floats,
    i_indptr: Ints,
    i_user: Codes,
    i_rating: Floats,
    mean: float,
    n_epochs: int,
    reg_u: float,
    reg_i: float,
    user_bias: FloatsOut,
    item_bias: FloatsOut,
) -> None:
    """Fit the biases by alternating least squares, from ratings by user and by item."""
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
def sgd(
    u_indptr: Ints,
    u_item: Codes,
    u_rating: Floats,
    mean: float,
    n_epochs: int,
    reg: float,
    rate: float,
    user_bias: FloatsOut,
    item_bias: FloatsOut,
) -> None:
    """Fit the biases by stochastic gradient descent, from ratings by user."""
    for _ in range(n_epochs):
        for user in range(len(u_indptr) - 1):
            for entry in range(u_indptr[user], u_indptr[user + 1]):
                item = u_item[entry]
                error = u_rating[entry] - (mean + user_bias[user] + item_bias[item])
                user_bias[user] += rate * (error - reg * user_bias[user])
                item_bias[item] += rate * (error - reg * item_bias[item])
