"""Neighbours of users and items by the similarity of their interactions, and random walks from item to item."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats, Ints
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import sparse
from evalplugin.models.base import model
from evalplugin.models.factors import MatrixModel, MatrixValues, matrix_of
from evalplugin.models.selection import select_candidates

if TYPE_CHECKING:
    from evalplugin.data import Candidates, Interactions
    from evalplugin.models.base import ListRequest
    from evalplugin.models.kernels.products import Divisor

_K1, _B = 1.2, 0.75  # of BM25
_BLOCK_ITEMS = 2000  # enough users for each thread to use what it has in the cache many times

Neighbours = Annotated[int, Field(ge=1, description="most neighbours of each item (of each user)")]
Similarity = Annotated[
    Literal["cosine", "jaccard", "dice", "asymmetric", "tversky"],
    Field(description="see above; jaccard, dice and tversky ignore values"),
]
Shrink = Annotated[
    float,
    Field(ge=0, description="added to the denominator, against few common interactions"),
]
Normalize = Annotated[
    bool, Field(description="of cosine and asymmetric: false takes the numerator alone, without shrink")
]
Weighting = Annotated[
    Literal["none", "tf-idf", "bm25"],
    Field(description="of cosine and asymmetric: users with few items count more"),
]
Exponent = Annotated[
    float,
    Field(
        ge=0,
        description="asymmetric: exponent of the item's (user's) own size; tversky: weight of what it has alone",
    ),
]


class ProductModel(MatrixModel):
    """A model of k weights of each item, whose scores are the product of two sparse matrices that its ``fit`` keeps."""

    k: int

    def prepare(self) -> None:
        """Import SciPy and the compiled loops."""
        super().prepare()
        import_module("evalplugin.models.kernels.products")

    def fit_bytes(self, train: Interactions) -> int:
        """Return the bytes of the k weights of each item and of the matrices that they are made from."""
        return self._bytes_of(train.item_counts, train)

    def _bytes_of(self, counts: Ints, train: Interactions) -> int:
        n = int(np.count_nonzero(counts))
        return 44 * n * min(n, self.k) + 64 * len(train)

    def scores(self, users: Codes) -> Floats:
        """Return the rows of the product: float64 (len(users), n_items)."""
        from evalplugin.models.kernels.products import dense_product

        return dense_product(self._left, users, self._right)

    def block_items(self, request: ListRequest) -> int:
        """Return fewer items than there are, if lists are made without a score of each."""
        n_items = request.train.n_items
        is_dense = not self._is_positive or request.candidates.included or request.history
        return n_items if is_dense else min(n_items, _BLOCK_ITEMS)

    def recommend_candidates(
        self, users: Codes, n: int, candidates: Candidates, history: Interactions | None = None
    ) -> tuple[Codes, Floats]:
        """Return the lists that follow from the scores; without negative entries only those above zero are computed."""
        if history is not None:
            return select_candidates(users, self.recommend_for(users, history), n, candidates)
        if candidates.included is not None or not self._is_positive:
            return select_candidates(users, self.scores(users), n, candidates)
        from evalplugin.models.kernels.products import top_of_product

        return top_of_product(self._left, users, self._right, n, candidates.excluded, candidates.tie_rank)

    def recommend_for(self, users: Codes, history: Interactions) -> Floats:
        """Return what ``scores`` does for users with these rows in the matrix of interactions."""
        from evalplugin.models.kernels.products import dense_product, with_small_indices

        return dense_product(with_small_indices(self._left_of(users, history)), users, self._right)

    def _left_of(self, users: Codes, history: Interactions) -> sparse.csr_array:
        """Return the left matrix, of the shape (n_users, x), with the rows of users who are known by a history."""
        return matrix_of(history, self.values)

    def _keep(self, left: sparse.csr_array, right: sparse.csr_array) -> None:
        """Keep matrices of the shapes (n_users, x) and (x, n_items)."""
        from evalplugin.models.kernels.products import with_small_indices

        self._left, self._right = with_small_indices(left), with_small_indices(right)
        # Whether the scores are the product, and none is negative.
        self._is_positive = bool(left.data.min(initial=0.0) >= 0 and right.data.min(initial=0.0) >= 0)

    def _matrix(self, train: Interactions, positive: str = "") -> sparse.csr_array:
        """Return the matrix of interactions; ``positive`` names a step that negative entries make impossible."""
        if positive and self.values == "rating" and train.rating_scale[0] < 0:
            raise ModelError(
                f"{positive} takes no negative ratings, and the lowest one is {train.rating_scale[0]:g}; "
                f"set values to 'binary', or take another model"
            )
        return matrix_of(train, self.values)


@dataclass
class _Neighbours(ProductModel):
    """Neighbours of users or items."""

    k: Neighbours = 100
    similarity: Similarity = "cosine"
    shrink: Shrink = 0.0
    normalize: Normalize = True
    weighting: Weighting = "none"
    alpha: Exponent = 0.5
    beta: Annotated[float, Field(ge=0, description="tversky: weight of what the neighbour has alone")] = 0.5
    values: MatrixValues = "binary"

    def __post_init__(self) -> None:
        if self.similarity == "asymmetric" and self.alpha > 1:
            raise ValueError(f"alpha of the asymmetric similarity must be at most 1, not {self.alpha}")

    def _similar(self, rows: sparse.csr_array, others: sparse.csr_array | None = None) -> sparse.csr_array:
        """Return the k neighbours of each row of a matrix: their numbers, and the similarities.

        They are other rows of the matrix, or of ``others``, in which a row with the same number is not a neighbour.
        """
        from evalplugin.models.kernels.products import top_products

        others = rows if others is None else others
        columns = others.T.tocsr()
        columns.sort_indices()
        return top_products(
            rows, columns, self.k, self._divisor(_squared_norms(rows), _squared_norms(others))
        )

    def _compared(self, data: Interactions, lengths: Floats | None = None) -> sparse.csr_array:
        """Return the entries that are compared: float64 (n_users, n_items); ``lengths``: see ``_weighted``."""
        if self.similarity in ("jaccard", "dice", "tversky"):
            return matrix_of(data, "binary")
        matrix = self._matrix(data, "" if self.weighting == "none" else self.weighting)
        if self.weighting != "none":
            matrix.data = _weighted(matrix, self.weighting, lengths)
        return matrix

    def _divisor(self, rows: Floats, others: Floats) -> Divisor:
        """Return the divisor that makes the product of two rows their similarity, given their sums of squares."""
        from evalplugin.models.kernels.products import Divisor

        n = max(len(rows), len(others))
        if self.similarity in ("cosine", "asymmetric"):
            if not self.normalize:
                return Divisor.of(n)
            alpha = self.alpha if self.similarity == "asymmetric" else 0.5
            return Divisor.of(n, 0.0, self.shrink, 0.0, rows**alpha, others ** (1 - alpha))
        alpha, beta, shrink = {
            "jaccard": (1.0, 1.0, self.shrink),
            "dice": (0.5, 0.5, self.shrink / 2),
            "tversky": (self.alpha, self.beta, self.shrink),
        }[self.similarity]
        return Divisor.of(n, 1 - alpha - beta, alpha * rows + shrink, beta * others, 0.0, 0.0)


def _squared_norms(rows: sparse.csr_array) -> Floats:
    """Return the squared norm of every row."""
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    return np.bincount(row, rows.data**2, rows.shape[0]).astype(np.float64, copy=False)


def _lengths(matrix: sparse.csr_array) -> Floats:
    """Return the sum of each column."""
    return np.bincount(matrix.indices, matrix.data, matrix.shape[1]).astype(np.float64, copy=False)


def _weighted(matrix: sparse.csr_array, weighting: str, lengths: Floats | None = None) -> Floats:
    """Return the entries with weights by TF-IDF or BM25, in which a user is a term and an item a document.

    ``lengths`` (n_items,): of the documents, where they have more terms than the matrix; None: by the matrix.
    """
    counts, n_items = np.diff(matrix.indptr), matrix.shape[1]
    rarity = np.log(n_items / (1 + counts)).repeat(counts)
    if weighting == "tf-idf":
        weighted: Floats = np.sqrt(matrix.data) * rarity
        return weighted
    lengths = _lengths(matrix) if lengths is None else lengths
    share = lengths[matrix.indices] * n_items / lengths.sum()
    weighted = matrix.data * (_K1 + 1) / (_K1 * (1 - _B + _B * share) + matrix.data)
    return rarity * weighted


@model("neighbours.item")
@dataclass
class ItemNeighbours(_Neighbours):
    """The items most similar to the user's items: item-based neighbours (ItemKNN) with a choice of similarities.

    score(u, i) = sum of x_uj s(i, j) over the items j of the user that are among the k items most similar to i. With
    the columns x_i and x_j of the matrix, their sizes (numbers of users) a and b, and c users of both, s(i, j) is:

    - cosine: x_i . x_j / (|x_i| |x_j| + shrink)
    - asymmetric: x_i . x_j / ((|x_i|²)^alpha (|x_j|²)^(1 - alpha) + shrink), Aiolli 2013
    - jaccard: c / (a + b - c + shrink)
    - dice: 2 c / (a + b + shrink)
    - tversky: c / (c + alpha (a - c) + beta (b - c) + shrink)

    tf-idf compares sqrt(x_ui) log(n_items / (1 + items of u)), bm25 the entries that Robertson and Zaragoza 2009 give
    with users as terms (K1 = 1.2, B = 0.75). All as of Ferrari Dacrema et al., ACM TOIS 2021. Of equally similar
    items the first in the catalogue are neighbours. Zero for items without train data.

    With ``average``, score(u, i) = m_i + sum of s(i, j) (x_uj - m_j) over the k neighbours j of i, divided by the sum
    of their s(i, j), where m_j is the mean of column j over all users (Sarwar et al. 2001).
    """

    average: Annotated[
        bool,
        Field(description="weighted average of deviations from the items' means, not weighted sum"),
    ] = False

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Find the neighbours of the items."""
        matrix = self._matrix(train)
        similar = self._similar(self._compared(train).T.tocsr())
        self._offset = np.zeros(train.n_items)
        if self.average:
            means = np.asarray(matrix.sum(axis=0)).ravel() / train.n_users
            similar = _steps(similar, 1.0)
            self._offset = means - similar @ means
        self._keep(matrix, similar.T.tocsr())
        self._is_positive = self._is_positive and not self.average

    def scores(self, users: Codes) -> Floats:
        """Return the sums or averages: float64 (len(users), n_items)."""
        return self._moved(super().scores(users))

    def recommend_for(self, users: Codes, history: Interactions) -> Floats:
        """Return the sums or averages over the items of histories: float64 (len(users), n_items)."""
        return self._moved(super().recommend_for(users, history))

    def _moved(self, sums: Floats) -> Floats:
        return sums + self._offset if self.average else sums


@model("neighbours.user")
@dataclass
class UserNeighbours(_Neighbours):
    """What similar users have: user-based neighbours (UserKNN) with a choice of similarities.

    score(u, i) = sum of s(u, v) x_vi over the k users v who are most similar to u, or with ``inverted`` of s(v, u)
    x_vi over the users v who have u among their k most similar ones. Similarities (of rows) and weights are those of
    neighbours.item; the cosine without shrink cancels tf-idf. Inverted neighbourhoods (Vargas and Castells 2014): a
    user who is in nobody's list scores all items 0. Zero for items without train data.
    """

    inverted: Annotated[
        bool,
        Field(description="neighbours have the user among their k most similar ones"),
    ] = False

    @property
    def takes_history(self) -> bool:
        """Whether new users can be answered: nobody has them among the most similar users."""
        return not self.inverted

    def fit_bytes(self, train: Interactions) -> int:
        """Return the bytes of the neighbours of each user and of the matrices that they are made from."""
        return self._bytes_of(train.rows.counts, train)

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Find the neighbours of the users."""
        self._rows, self._lengths = self._compared(train), _lengths(matrix_of(train, self.values))
        similar = self._similar(self._rows)
        self._keep(similar.T.tocsr() if self.inverted else similar, self._matrix(train))

    def _left_of(self, users: Codes, history: Interactions) -> sparse.csr_array:
        """Return the k users of the train data who are most similar to each user, and the similarities."""
        asked = history.select(np.isin(history.user, users))
        return self._similar(self._compared(asked, self._lengths), self._rows)


@dataclass
class _Walks(ProductModel):
    """Random walks of three steps: from the user to an item, to a user of that item, to an item of that user."""

    k: Annotated[int, Field(ge=1, description="most weights of each item")] = 100
    alpha: Annotated[float, Field(ge=0, description="exponent of the probabilities of steps")] = 1.0
    normalize: Annotated[bool, Field(description="whether the weights from an item add up to 1")] = True
    values: MatrixValues = "binary"

    def _fit(self, train: Interactions, beta: float) -> None:
        from evalplugin.models.kernels.products import Divisor, top_products

        matrix = self._matrix(train, "a random walk")
        from_user, to_user = (
            _steps(matrix, self.alpha),
            _steps(matrix_of(train, "binary").T.tocsr(), self.alpha),
        )
        popularity = np.maximum(train.item_counts, 1.0) ** beta
        divisor = Divisor.of(train.n_items, column_factor=popularity)
        reached = top_products(to_user, from_user, self.k, divisor)
        if self.normalize:
            reached = _steps(reached, 1.0)
        self._keep(matrix, keep_columns(reached, self.k))


def _steps(matrix: sparse.csr_array, alpha: float) -> sparse.csr_array:
    """Return the entries as shares of their row, to the power of alpha."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    total = np.bincount(row, matrix.data, matrix.shape[0])
    shares = matrix.copy()
    shares.data /= np.where(total > 0, total, 1.0)[row]
    shares.data **= alpha
    return shares


def keep_columns(matrix: sparse.csr_array, k: int) -> sparse.csr_array:
    """Return the k largest entries of each column of a square matrix without a diagonal."""
    from evalplugin.models.kernels.products import top_products

    same = sparse.eye_array(matrix.shape[0], format="csr")
    return top_products(matrix.T.tocsr(), same, k).T.tocsr()


@model("graph.p3alpha")
@dataclass
class P3alpha(_Walks):
    """Random walks of three steps: from the user over an item to another user and on to an item (P³α).

    score(u, i) = sum over the user's items j of x_uj w(j, i), w(j, i) = sum over the users v of j of (1 / n_j)^alpha
    (x_vi / x_v)^alpha with n_j users of j and the sum x_v of the row of v. Of each j the k largest w are kept and
    normalised, then the k largest of each i (Ferrari Dacrema et al. 2021). Zero for items without train data. Cooper
    et al., WWW 2014.
    """

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Compute the weights of the items that are reached from each item.

        Raises:
            ModelError: There are negative ratings.
        """
        self._fit(train, 0.0)


@model("graph.rp3beta")
@dataclass
class RP3beta(_Walks):
    """Random walks of three steps in which popular items count less (RP³β).

    score(u, i) as of graph.p3alpha with w(j, i) divided by n_i^beta, for n_i users of i. Zero for items without train
    data. Paudel et al., ACM TiiS 2017.
    """

    beta: Annotated[float, Field(ge=0, description="how much popular items are held back; 0: not at all")] = (
        0.6
    )

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Compute the weights of the items that are reached from each item.

        Raises:
            ModelError: There are negative ratings.
        """
        self._fit(train, self.beta)
