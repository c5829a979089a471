"""The class or cause of one row, and the columns that many of them make."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from prefixscope.index.lineage import UNKNOWN, BreakColumns, Labels

__all__ = ["Verdict", "VerdictColumns"]


class Verdict(NamedTuple):
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
        self._causes: list[str] = []
        self._parts: list[str | None] = []
        self._details: list[str | None] = []
        self._candidates, self._firsts, self._places = array("q"), array("q"), array("q")
        self._lost, self._almost = array("q"), array("q")

    def append(self, verdict: Verdict) -> None:
        """The next row's."""
        self._causes.append(verdict.cause)
        self._parts.append(verdict.part)
        self._details.append(verdict.detail)
        self._candidates.append(verdict.candidate)
        self._firsts.append(verdict.first)
        self._places.append(verdict.place)
        self._lost.append(verdict.lost)
        self._almost.append(verdict.almost)

    def done(self) -> BreakColumns:
        """All of them as columns."""
        return BreakColumns(
            cause=Labels.of(self._causes),
            part=Labels.of(self._parts),
            detail=Labels.of(self._details),
            candidate_row=np.array(self._candidates, np.int64),
            first_different_token=np.array(self._firsts, np.int64),
            place=np.array(self._places, np.int64),
            lost_tokens=np.array(self._lost, np.int64),
            almost_tokens=np.array(self._almost, np.int64),
        )
