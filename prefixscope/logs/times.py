"""Logged times to integer nanoseconds UTC, without passing through float64 (which can't hold them).

A number is read by its magnitude: from 1e9 epoch seconds, 1e12 milliseconds, 1e15 microseconds, 1e18 nanoseconds.
Smaller numbers are a relative clock that starts near 0, in the unit of the format (or of the field: `_ms`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Literal

from prefixscope.records import Json

__all__ = ["MICROSECOND", "MILLISECOND", "SECOND", "Clock", "ClockKind", "decide_clock", "field_unit"]

ClockKind = Literal["absolute", "relative", "unknown"]

SECOND, MILLISECOND, MICROSECOND = 10**9, 10**6, 10**3
_LATEST = 2**63 - 1  # the year 2262: what an int64 column of nanoseconds can hold
_EPOCH_FROM = 10**9
_EPOCH_UNITS = ((10**11, SECOND, "epoch_s"), (10**14, MILLISECOND, "epoch_ms"), (10**17, MICROSECOND, "epoch_us"))
_RELATIVE_BELOW = 10**11
_NUMBER = re.compile(r"[+-]?\d{1,30}(\.\d{0,30})?([eE][+-]?\d{1,2})?", re.ASCII)
_LITERAL = re.compile(rb"\d+\.\d+")
_FLOAT_HOLDS_NANOSECONDS = 10**6
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ]+(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,30}))?)?)?\s*(Z|z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)
_FIELD_UNITS = (("_ms", MILLISECOND), ("_us", MICROSECOND), ("_ns", 1))


def field_unit(name: str) -> int | None:
    """The unit a field's name states (`timestamp_ms`), in nanoseconds; None where it states none."""
    for suffix, unit in _FIELD_UNITS:
        if name.endswith(suffix):
            return unit
    return None


@dataclass(slots=True)
class Clock:
    """Reads the times of one file (or batch) and keeps count of what it saw.

    `kind` is decided from the first rows; `unit` is what one tick of a relative clock is worth in nanoseconds.
    `seen` counts readings by form (iso, iso_without_zone, epoch_s, ..., relative, impossible).
    `resolution` is the finest step seen, in nanoseconds (None while nothing was read).
    """

    kind: ClockKind = "unknown"
    unit: int = SECOND
    seen: dict[str, int] = field(default_factory=dict)
    resolution: int | None = None

    def read(self, value: Json, raw: bytes = b"", unit: int | None = None) -> int | None:
        """Nanoseconds, or None for a missing or impossible time. `raw` is the line, for digits a float has lost."""
        if value is None or value == "":
            return None
        time_ns, form = _read(value, raw, self.kind, unit or self.unit)
        if time_ns is not None and not 0 <= time_ns <= _LATEST:
            time_ns, form = None, "impossible"
        self.seen[form] = self.seen.get(form, 0) + 1
        if time_ns is not None:
            self._note_resolution(time_ns)
        return time_ns

    def include(self, other: Clock) -> None:
        """Counts what another clock read as if this one had read it."""
        for form, count in other.seen.items():
            self.seen[form] = self.seen.get(form, 0) + count
        if other.resolution is not None:
            self.resolution = min(other.resolution, self.resolution or other.resolution)

    def _note_resolution(self, time_ns: int) -> None:
        step = self.resolution
        if step is None:
            step = self.resolution = SECOND
        while step > 1 and time_ns % step:
            step //= 1000
            self.resolution = step


def decide_clock(values: Iterable[Json], unit: int = SECOND) -> ClockKind:
    """Whether a file's clock is absolute or relative, from the times of its first rows (None is skipped)."""
    clock = Clock("unknown", unit)
    for value in values:
        clock.read(value)
    relative = clock.seen.pop("relative", 0)
    clock.seen.pop("impossible", None)
    absolute = sum(clock.seen.values())
    if not relative and not absolute:
        return "unknown"
    return "relative" if relative > absolute else "absolute"


def _read(value: Json, raw: bytes, kind: ClockKind, unit: int) -> tuple[int | None, str]:
    number: int | Decimal
    if isinstance(value, bool):
        return None, "impossible"
    if isinstance(value, int):
        number = value
    elif isinstance(value, float):
        if not math.isfinite(value):
            return None, "impossible"
        number = _exact(value, raw)
    elif isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text) is None:
            return (None, "impossible") if kind == "relative" else _read_iso(text)
        number = Decimal(text)
    else:
        return None, "impossible"
    return _scale(number, kind, unit)


def _scale(number: int | Decimal, kind: ClockKind, unit: int) -> tuple[int | None, str]:
    if number < 0 or number >= 10**20:
        return None, "impossible"
    if (kind == "relative" and number < _RELATIVE_BELOW) or (kind == "unknown" and number < _EPOCH_FROM):
        return _times(number, unit), "relative"
    if kind == "relative" or number < _EPOCH_FROM:
        return None, "impossible"
    for below, epoch_unit, form in _EPOCH_UNITS:
        if number < below:
            return _times(number, epoch_unit), form
    return _times(number, 1), "epoch_ns"


def _times(number: int | Decimal, unit: int) -> int:
    return number * unit if isinstance(number, int) else int((number * unit).to_integral_value())


def _exact(value: float, raw: bytes) -> Decimal:
    """The number as written: its shortest form, or the literal in the line where that has more digits."""
    shortest = Decimal(repr(value))
    if value < _FLOAT_HOLDS_NANOSECONDS or value >= _EPOCH_FROM**2:
        return shortest
    # A literal just below a whole number may have been rounded up to it.
    for whole in (int(value), int(value) - 1) if value.is_integer() else (int(value),):
        start = str(whole).encode() + b"."
        place = raw.find(start)
        while place >= 0:
            match = _LITERAL.match(raw, place)
            if match is not None and float(match[0]) == value and not raw[max(place - 1, 0) : place].isdigit():
                return Decimal(match[0].decode())
            place = raw.find(start, place + 1)
    return shortest


def _read_iso(text: str) -> tuple[int | None, str]:
    match = _ISO.fullmatch(text)
    if match is None:
        return None, "impossible"
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - 719_163
    except ValueError:
        return None, "impossible"
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 24 or minutes > 59 or seconds > 60:
        return None, "impossible"
    total = days * 86_400 + hours * 3600 + minutes * 60 + seconds
    nanoseconds = int((fraction or "")[:9].ljust(9, "0"))
    if zone is None:
        return total * SECOND + nanoseconds, "iso_without_zone"
    return (total - _offset(zone)) * SECOND + nanoseconds, "iso"


def _offset(zone: str) -> int:
    if zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if zone[0] == "-" else seconds
