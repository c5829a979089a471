"""The class or cause of one row, and the columns that many of them make."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from prefixscope.index.lineage import UNKNOWN, BreakColumns, Labels

__all__ = ["Verdict", "VerdictColumns"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found for a row; UNKNOWN and None where nothing was compared or no part is named."""

    cause: str
    candidate: int = UNKNOWN
    first: int = UNKNOWN
    part: str | None = None
    detail: str | None = None
    place: int = UNKNOWN
    lost: int = 0
    almost: int = 0


class VerdictColumns:
    """Collects verdicts in row order."""

    def __init__(self) -> None:
        self._words: dict[str, list[str | None]] = {"cause": [], "part": [], "detail": []}
        self._numbers = {name: array("q") for name in ("candidate", "first", "place", "lost", "almost")}

    def append(self, verdict: Verdict) -> None:
        """The next row's."""
        for name, words in self._words.items():
            words.append(getattr(verdict, name))
        for name, numbers in self._numbers.items():
            numbers.append(getattr(verdict, name))

    def done(self) -> BreakColumns:
        """All of them as columns."""
        numbers = {name: np.array(values, np.int64) for name, values in self._numbers.items()}
        return BreakColumns(
            cause=Labels.of(self._words["cause"]),
            part=Labels.of(self._words["part"]),
            detail=Labels.of(self._words["detail"]),
            candidate_row=numbers["candidate"],
            first_different_token=numbers["first"],
            place=numbers["place"],
            lost_tokens=numbers["lost"],
            almost_tokens=numbers["almost"],
        )
