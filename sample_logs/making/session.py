"""What a conversation is before and after it was served, and the seven hours of the day it happens in."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from making.draw import Draw

TEXTS = Path(__file__).resolve().parent.parent / "texts"
DAY_START_MS = int(datetime(2026, 3, 17, 8, tzinfo=UTC).timestamp()) * 1000

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a session: the messages it adds to the history, the answer, the pause before it."""

    added: list[Message]
    answer: Message
    pause_ms: int


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation as planned. `header` (with {time} and {request}) opens the system message of each request."""

    session_id: str
    model: str
    start_ms: int
    steps: list[Step]
    tenant: str | None = None
    tools: list[Any] | None = None
    header: str | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """One request with everything a gateway would log. Times are milliseconds since 1970, UTC."""

    session: Session
    request_id: str
    arrival_ms: int
    first_token_ms: int
    finished_ms: int
    messages: list[Message]
    answer: Message
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Arrivals:
    """Session starts that come in small bursts, so that requests of different sessions overlap."""

    draw: Draw
    mean_gap_ms: int
    now_ms: int = field(default=DAY_START_MS)

    def next_ms(self) -> int:
        """The start of the next session."""
        gap = self.draw.integer(40, 1500) if self.draw.chance(0.45) else self.draw.waiting_ms(self.mean_gap_ms)
        self.now_ms += gap
        return self.now_ms


def read_texts(name: str) -> dict[str, Any]:
    """The sentences of one log, from texts/NAME.toml."""
    return tomllib.loads((TEXTS / f"{name}.toml").read_text(encoding="utf-8"))


def iso_time(milliseconds: int) -> str:
    """An instant as ISO 8601 with milliseconds.

    >>> iso_time(1773734400120)
    '2026-03-17T08:00:00.120Z'
    """
    instant = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{instant:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def iso_seconds(milliseconds: int) -> str:
    """An instant as ISO 8601 with whole seconds."""
    return f"{datetime.fromtimestamp(milliseconds // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
