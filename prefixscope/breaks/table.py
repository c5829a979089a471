"""What the break finder found, as columns: one entry per row, without text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefixscope.breaks.header import Spot
from prefixscope.index.lineage import BreakColumns, Int64

__all__ = ["BreakColumns", "BreakExample", "Breaks"]


@dataclass(frozen=True, slots=True)
class BreakExample:
    """One break with its text: `left` stands in front of the first difference on both sides."""

    row: int
    candidate: int
    first_different_token: int
    part: str
    left: str | None
    old: str | None
    new: str | None
    detail: str | None = None
    agreed_tokens: int = 0
    cause: str = ""
    spot: Spot | None = None


@dataclass(frozen=True, slots=True)
class Breaks:
    """Columns and one example per fault (cause, part and place); sessions inferred, comparisons not made."""

    columns: BreakColumns
    shared_tokens_without_isolation: Int64
    examples: Mapping[int, BreakExample]
    inferred_sessions: int
    not_compared: int
