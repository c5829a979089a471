"""Rows of a hash trace as columns: what is read of many plain rows at once.

A plain row has a length and as many ids as it asks for, all whole numbers that fit into 64 bits. Everything else goes
row by row through the format's own `read`, which stays the reference: both give the same facts and the same faults.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
import numpy.typing as npt

from prefixscope.logs.fields import COUNT_END, first_present, text_of
from prefixscope.logs.hash_traces import count_of, unreadable_time
from prefixscope.logs.rows import Fault
from prefixscope.logs.times import MICROSECOND, MILLISECOND, SECOND, Clock
from prefixscope.records import Json

__all__ = ["FEWEST_ROWS", "UNKNOWN", "HashColumns", "PlainRows", "hash_columns", "id_kind", "is_plain"]

FEWEST_ROWS = 8
"""Fewer plain rows in a row are not worth columns of their own."""

UNKNOWN = -1
"""Stands for an output length that the log does not tell."""

_ID_END = 1 << 64

Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Texts = tuple[str | None, ...] | None
_REQUEST_ID = ("request_id", "id", "chat_id")


@dataclass(frozen=True, slots=True, eq=False)
class HashColumns:
    """Rows that follow one another in one file; every array has one entry a row, but `ids`, which holds `id_counts[k]`
    ids of row k behind those of the rows before.

    `unit` is the number of tokens of one id. `time_ns` counts only where `has_time`. Columns of texts are None where
    no row has any.
    """

    file: str
    unit: int
    line: Int64
    prompt_tokens: Int64
    output_tokens: Int64
    time_ns: Int64
    has_time: Mask
    ids: npt.NDArray[np.uint64]
    id_counts: Int64
    request_id: Texts
    model: Texts
    session_id: Texts

    def __len__(self) -> int:
        return len(self.line)

    @property
    def missing_times(self) -> int:
        """Rows without a time."""
        return len(self) - int(self.has_time.sum())

    def head(self, rows: int) -> HashColumns:
        """The first rows only."""
        texts = [None if column is None else column[:rows] for column in (self.request_id, self.model, self.session_id)]
        return HashColumns(
            self.file, self.unit, self.line[:rows], self.prompt_tokens[:rows], self.output_tokens[:rows],
            self.time_ns[:rows], self.has_time[:rows], self.ids[: int(self.id_counts[:rows].sum())],
            self.id_counts[:rows], *texts,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Decoded rows in order: their lines, their bytes and their objects."""

    lines: list[int]
    raws: list[bytes]
    values: list[dict[str, Json]]

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[tuple[int, bytes, dict[str, Json]]]:
        return zip(self.lines, self.raws, self.values, strict=True)

    def append(self, line: int, raw: bytes, value: dict[str, Json]) -> None:
        """Adds a row."""
        self.lines.append(line)
        self.raws.append(raw)
        self.values.append(value)


def is_plain(value: dict[str, Json], unit: int) -> bool:
    """Whether length and number of ids allow a column; the kinds of ids and times are looked at for all rows at once.

    >>> is_plain({"input_length": 20, "hash_ids": [1, 2]}, 16), is_plain({"input_length": 20, "hash_ids": []}, 16)
    (True, False)
    """
    ids, length = value.get("hash_ids"), value.get("input_length")
    if type(length) is not int:
        length = count_of(length)
    if type(ids) is not list or not length or not 0 < length < COUNT_END:
        return False
    beyond = length - len(ids) * unit
    return -unit < beyond < unit and ("delay" not in value or "timestamp" in value)


def id_kind(ids: Sequence[Json]) -> Literal["small", "large", "odd"]:
    """Whether ids are whole numbers from 0 to 2^64 - 1, whole numbers, or anything else."""
    if not {int}.issuperset(map(type, ids)):
        return "odd"
    return "small" if not ids or (min(ids) >= 0 and max(ids) < _ID_END) else "large"


def hash_columns(rows: PlainRows, file: str, unit: int, clock: Clock, faults: list[Fault]) -> HashColumns | None:
    """The columns of plain rows; None, and nothing is noted, where at least one has ids that are not `small`."""
    flat = _flat_ids(rows)
    if flat is None:
        return None
    time_ns, has_time = _times([value.get("timestamp") for value in rows.values], rows, clock, faults)
    names = set(chain.from_iterable(rows.values))
    counts = np.fromiter((len(value["hash_ids"]) for value in rows.values), np.int64, len(rows))
    return HashColumns(
        file=file,
        unit=unit,
        line=np.array(rows.lines, np.int64),
        prompt_tokens=_counts([value["input_length"] for value in rows.values]),
        output_tokens=_counts([value.get("output_length") for value in rows.values]),
        time_ns=time_ns,
        has_time=has_time,
        ids=flat,
        id_counts=counts,
        request_id=None
        if names.isdisjoint(_REQUEST_ID)
        else _texts(first_present(value, _REQUEST_ID) for value in rows.values),
        model=_texts(value.get("model") for value in rows.values) if "model" in names else None,
        session_id=_texts(value.get("session_id") for value in rows.values) if "session_id" in names else None,
    )


def _flat_ids(rows: PlainRows) -> npt.NDArray[np.uint64] | None:
    """All ids behind one another; None where one of them is no whole number from 0 to 2^64 - 1."""
    lists = [value["hash_ids"] for value in rows.values]
    # `array` would take true for 1; where no line holds these words, no id can be one
    lines = b"\n".join(rows.raws)
    if (b"true" in lines or b"false" in lines) and any(id_kind(ids) != "small" for ids in lists):
        return None
    flat = array("Q")
    try:
        for ids in lists:
            flat.fromlist(ids)
    except (TypeError, OverflowError):
        return None
    return np.frombuffer(flat, np.uint64) if flat else np.empty(0, np.uint64)


def _counts(values: Sequence[Json]) -> Int64:
    """Lengths, UNKNOWN where there is none that makes sense."""
    if set(map(type, values)) == {int} and min(values) >= 0 and max(values) < COUNT_END:
        return np.array(values, np.int64)
    return np.array([UNKNOWN if (count := count_of(value)) is None else count for value in values], np.int64)


def _texts(values: Iterable[Json]) -> Texts:
    return tuple([None if value is None else text_of(value) for value in values])


def _times(values: list[Json], rows: PlainRows, clock: Clock, faults: list[Fault]) -> tuple[Int64, Mask]:
    """The times and which rows have one, as `clock` reads them; a time that it can't read is a fault."""
    times = np.zeros(len(values), np.int64)
    if set(map(type, values)) == {int} and (whole := _whole_times(values, clock)) is not None:
        return whole, np.ones(len(values), np.bool_)
    has_time = np.zeros(len(values), np.bool_)
    for place, value in enumerate(values):
        time_ns = clock.read(value, rows.raws[place])
        if time_ns is not None:
            times[place], has_time[place] = time_ns, True
        elif value is not None:
            faults.append(unreadable_time(rows.lines[place]))
    return times, has_time


def _whole_times(values: list[int], clock: Clock) -> Int64 | None:
    """Times that are whole numbers of one form: each form covers all numbers between two limits and multiplies them by
    its unit, so what a clock makes of the least and of the greatest tells the rest. None where their forms differ."""
    least, greatest = min(values), max(values)
    own = Clock(clock.kind, clock.unit)
    first, last = own.read(least), own.read(greatest)
    if first is None or last is None or len(own.seen) > 1:
        return None
    times = np.array(values, np.int64) * (last // greatest if greatest else 1)
    steps = (SECOND, MILLISECOND, MICROSECOND, 1)
    own.seen = dict.fromkeys(own.seen, len(values))
    own.resolution = next(step for step in steps if not (times % step).any())
    clock.include(own)
    return times
