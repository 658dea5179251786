from __future__ import annotations

import numpy as np
import pytest

from evalplugin.base.seeding import generator, hashed_ids, hashed_ranks


def test_generator_depends_on_seed_and_names_alone() -> None:
    first = generator(1, "data", "model").random(5)
    generator(1, "other").random(100)
    np.testing.assert_array_equal(first, generator(1, "data", "model").random(5))


def test_generators_differ_by_seed_and_by_name() -> None:
    streams = [
        generator(1, "a"),
        generator(2, "a"),
        generator(1, "b"),
        generator(1, "a", "b"),
        generator(1, "ab"),
    ]
    assert len({float(stream.random()) for stream in streams}) == len(streams)


TEXT = np.array(["a", "b", "é", "\ud800", ""], dtype=object)


def test_hashes_of_ids_are_the_same_everywhere() -> None:
    assert hashed_ids(np.array([0, 1, -7, 2**62]), 3, "ties").tolist() == [
        16104343479004522619,
        442800877601752629,
        3367922375590603204,
        5815987931082863120,
    ]
    assert hashed_ids(TEXT, 3, "ties").tolist() == [
        5750185084881454688,
        8314921133429837881,
        2682717830263923152,
        16241911385907490869,
        16104343479004522619,
    ]


def test_an_order_of_ids_depends_on_seed_name_and_id_alone() -> None:
    ids = np.arange(1000)
    ranks = hashed_ranks(ids, 1)
    assert sorted(ranks.tolist()) == ids.tolist()
    shuffled = np.random.default_rng(0).permutation(ids)[:400]
    np.testing.assert_array_equal(np.argsort(hashed_ranks(shuffled, 1)), np.argsort(ranks[shuffled]))
    assert not (hashed_ranks(ids, 2) == ranks).all()
    assert not (hashed_ranks(ids, 1, "again") == ranks).all()


@pytest.mark.parametrize("kind", ["ascending", "spaced", "huge", "text"])
def test_no_id_is_favoured_over_seeds(kind: str) -> None:
    ids = {
        "ascending": np.arange(50),
        "spaced": np.arange(50) * 2**32,
        "huge": np.arange(50) + 2**62,
        "text": np.array([f"item {n:03}" for n in range(50)], dtype=object),
    }[kind]
    # Of 50 tied items 10 are listed: each in a fifth of the orders, whatever its id.
    listed = np.mean([hashed_ranks(ids, seed) < 10 for seed in range(4000)], axis=0)
    assert np.abs(listed - 0.2).max() < 4.5 * (0.2 * 0.8 / 4000) ** 0.5
    # And two neighbours are listed together as often as any two.
    together = np.mean(
        [(ranks[:-1] < 10) & (ranks[1:] < 10) for ranks in (hashed_ranks(ids, s) for s in range(4000))]
    )
    assert abs(together - 10 * 9 / (50 * 49)) < 0.002
