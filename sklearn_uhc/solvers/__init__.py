"""Pure numerics: what the columns stand for (`blocks`), one file per objective, one loop (`newton`).

No scikit-learn, no checks of users' input, no warnings. May import the label space and nothing else of the package.
"""

from __future__ import annotations

from typing import Any

from sklearn_uhc.solvers.plain_blocks import PlainBlocks
from sklearn_uhc.solvers.set_blocks import SetBlocks
from sklearn_uhc.spaces.label_space import LabelSpace

__all__ = ["blocks_of"]


def blocks_of(space: LabelSpace) -> Any:
    """Return a label space as the arrays that solvers multiply with, made once: `PlainBlocks` or `SetBlocks`."""
    return space.once("blocks", lambda: (SetBlocks if space.has_sets else PlainBlocks).of(space))
