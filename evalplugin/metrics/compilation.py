"""When to use compiled loops, whose import takes as long as scoring tens of millions of rows."""

from __future__ import annotations

import sys

__all__ = ["worth_compiling"]

# Rows that a process scores without compiled loops before it loads them: by then they would have saved what loading
# them takes. A process that scores fewer never waits for them.
_LOADED_FROM = 2**25
_CALLED_FROM = 2**16  # rows from which loops that are loaded are faster
_scored = 0  # rows scored by this process so far


def worth_compiling(n_rows: int) -> bool:
    """Return whether to score so many rows of lists with compiled loops; results are the same to the last bit."""
    global _scored
    _scored += n_rows
    is_loaded = f"{__package__}.loops" in sys.modules
    return n_rows >= _CALLED_FROM and (is_loaded or _scored >= _LOADED_FROM)
