"""The rows that were compared last, kept at hand: the new side of a comparison is the old side of the next ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from prefixscope.breaks.bodies import BodyStore
from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.rows import Rows
from prefixscope.breaks.sides import Side, Texts
from prefixscope.index.builder import BuiltLineage

__all__ = ["RecentRows"]

_KEPT_TOKENS = 16 << 20
"""Bytes of token sequences that are kept at hand."""
_KEPT_SIDES = 16


class RecentRows(Rows):
    """Rows with their tokens, sides and the comparison made last kept for a while."""

    def __init__(self, built: BuiltLineage, store: BodyStore, kind: Callable[[int], str], texts: Texts) -> None:
        super().__init__(built, store, kind, texts)
        self._sides: OrderedDict[int, Side] = OrderedDict()
        self._tokens: OrderedDict[int, bytes] = OrderedDict()
        self._token_bytes = 0
        self._made: tuple[int, int, Comparison | None] | None = None

    def tokens(self, row: int) -> bytes:
        """As in Rows; a row is asked for in a comparison or two, and again as the old side of later ones."""
        kept = self._tokens.get(row)
        if kept is not None:
            self._tokens.move_to_end(row)
            return kept
        tokens = self._tokens[row] = super().tokens(row)
        self._token_bytes += len(tokens)
        while self._token_bytes > _KEPT_TOKENS and len(self._tokens) > 1:
            _, gone = self._tokens.popitem(last=False)
            self._token_bytes -= len(gone)
        return tokens

    def comparison(self, row: int, other: int) -> Comparison | None:
        """As in Rows; the one made last is used again."""
        if self._made is None or self._made[:2] != (row, other):
            self._made = (row, other, super().comparison(row, other))
        return self._made[2]

    def side(self, row: int) -> Side:
        """As in Rows; the new side of a comparison is the old one of the next."""
        kept = self._sides.get(row)
        if kept is None:
            kept = self._sides[row] = super().side(row)
            if len(self._sides) > _KEPT_SIDES:
                self._sides.popitem(last=False)
        return kept
