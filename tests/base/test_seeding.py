from __future__ import annotations

import numpy as np

from evalplugin.base.seeding import generator


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
