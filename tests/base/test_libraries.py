"""Libraries that are imported when first used."""

from __future__ import annotations

import copy
import pickle

import pandas

from evalplugin.base.libraries import pd


def test_a_lazy_library_is_copied_and_pickled_as_the_module() -> None:
    assert pd.DataFrame is pandas.DataFrame
    assert pickle.loads(pickle.dumps(pd)).DataFrame is pandas.DataFrame
    assert copy.copy(pd).DataFrame is pandas.DataFrame
