"""Finds where each prompt departs from what it could be expected to share, and proves why.

`note` is called while reading, once per row that goes into the tree, and keeps the body. `find` is called when the
tree stands and goes through the rows in time order: lengths decide most of them; the others are compared with one
earlier request, and the ordered detectors of `causes` name the cause.
"""

from __future__ import annotations

from collections.abc import Callable

from prefixscope.breaks.bodies import DEFAULT_BUDGET, BodyStore
from prefixscope.breaks.pieces import BodyPieces
from prefixscope.breaks.run import Run
from prefixscope.breaks.sides import Texts
from prefixscope.breaks.table import Breaks
from prefixscope.index.builder import BuiltLineage

__all__ = ["BreakFinder"]

KINDS = ("chat", "text", "tokens", "hashes")


class BreakFinder:
    """One run over one log."""

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        self.store = BodyStore(budget)
        self._kinds = bytearray()

    def note(self, kind: str, pieces: BodyPieces) -> None:
        """Keeps what the comparison will need of a request: its kind and its body."""
        self.store.add_pieces(pieces)
        self._kinds.append(KINDS.index(kind))

    def find(self, built: BuiltLineage, texts: Texts, progress: Callable[[int], None] = lambda _: None) -> Breaks:
        """Every row's class or cause, in time order."""
        run = Run(built, self.store, self.kind, texts)
        for row in range(len(built.lineage)):
            run.take(row)
            if row % 500 == 499:
                progress(row + 1)
        return run.finish()

    def kind(self, number: int) -> str:
        """What the prompt of a body was made of."""
        return KINDS[self._kinds[number]]
