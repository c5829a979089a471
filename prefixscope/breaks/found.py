"""What a detector says: the cause, its proof in a word, and which later differences are of the same kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import xxhash

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.sides import Place

__all__ = ["Detector", "Explains", "Found", "Prove", "fault_id", "shape_of"]

Explains = Callable[[str, str], bool]
"""Whether a later difference (text of both sides, with its surroundings) is one of the same kind."""


@dataclass(frozen=True, slots=True)
class Found:
    """A proven cause. `key` is the place without what changes from request to request: equal keys are one fault.

    `detail` tells variants of a cause apart (`client`, `template`, ...). `moved`: the same text stands in another
    order, so agreement counts wherever it is found.
    """

    cause: str
    place: Place
    key: str = ""
    detail: str | None = None
    explains: Explains | None = None
    moved: bool = False
    context: str | None = None
    """For clocks, dates and ids: the shape of the text in front, by which the place is found in other requests."""
    also: tuple[int, ...] = ()
    """Which of the clocks, dates and ids behind it differ as well, counted from 0."""


def fault_id(found: Found) -> int:
    """Equal for faults with the same cause at the same place."""
    place = found.place
    return xxhash.xxh3_64_intdigest(f"{found.cause}\n{place.kind}\n{place.role}\n{found.key}".encode()) >> 1


Prove = Callable[[Comparison], Found | None]


@dataclass(frozen=True, slots=True)
class Detector:
    """One cause and how it is proven; None where it is not proven."""

    cause: str
    prove: Prove


def shape_of(text: str) -> str:
    """A context without what varies: digits become 0, white space one blank.

    >>> shape_of("m\\nCurrent time is 20:37:")
    'm Current time is 00:00:'
    """
    return re.sub(r"\d", "0", " ".join(text.split()))
