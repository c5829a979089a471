"""What every log format shares: how it describes itself, and what it is given to read a row with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from prefixscope.logs.times import SECOND, Clock
from prefixscope.records import Json, LoggedRequest, Source

__all__ = ["EXCLUSIONS", "Fault", "LogFormat", "Row"]

EXCLUSIONS = frozenset(
    {
        "failed_before_prefill",
        "health_check",
        "no_prompt",
        "not_a_generation_call",
        "redacted_prompt",
        "response_cache_hit",
    }
)
"""Reasons of rows that were read well but are no prefill work; every other skip is a broken row (`--strict` fails)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something to tell about a line: a skip (the row is left out) or a warning (it stays), with a fixed reason."""

    line: int
    reason: str
    kind: Literal["skip", "warning"]
    detail: Mapping[str, Json] = field(default_factory=dict)


@dataclass(slots=True)
class Row:
    """One decoded object on its way to LoggedRequests; collects what goes wrong.

    `unit` is the number of tokens one hash id stands for in this file.
    """

    value: Mapping[str, Json]
    source: Source
    clock: Clock
    faults: list[Fault]
    raw: bytes = b""
    unit: int | None = None

    def skip(self, reason: str, **detail: Json) -> tuple[LoggedRequest, ...]:
        """Counts the row as left out; gives the empty result, so that `return row.skip(...)` reads well."""
        self.faults.append(Fault(self.source.line, reason, "skip", detail))
        return ()

    def warn(self, reason: str, **detail: Json) -> None:
        """Notes something about a row that stays."""
        self.faults.append(Fault(self.source.line, reason, "warning", detail))


class LogFormat(ABC):
    """One log format: a name, what it can tell, how to switch such logging on, and how a row is read.

    `family` names formats whose rows may be mixed in one file. `verified` is False where a fact in `how` or a field
    name was not checked against the source. `tick` is what one step of a relative clock is worth, in nanoseconds.
    `has_columns`: plain rows of hash ids may be read many at once (hash_columns.py).
    """

    name: ClassVar[str]
    family: ClassVar[str]
    description: ClassVar[str]
    how: ClassVar[str]
    signature: ClassVar[str]
    has_text: ClassVar[bool] = True
    has_token_ids: ClassVar[bool] = False
    has_time: ClassVar[bool] = True
    has_cached_tokens: ClassVar[bool] = False
    has_session: ClassVar[bool] = False
    has_adapter: ClassVar[bool] = False
    verified: ClassVar[bool] = True
    tick: ClassVar[int] = SECOND
    hash_unit: ClassVar[int | None] = None
    has_columns: ClassVar[bool] = False

    @abstractmethod
    def recognises(self, value: Mapping[str, Json]) -> bool:
        """Whether the object looks like a row of this format."""

    @abstractmethod
    def times(self, value: Mapping[str, Json]) -> Iterator[tuple[str, Any]]:
        """The (field name, value) of the row's arrival time, for deciding the clock; nothing where there is none."""

    @abstractmethod
    def read(self, row: Row) -> tuple[LoggedRequest, ...]:
        """The requests of one row, in order; what is left out is told to `row`."""
