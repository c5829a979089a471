"""A batch of lines to its requests: a pure function of bytes and plan, so that it can run in other processes."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from prefixscope.logs.detect import FilePlan
from prefixscope.logs.hash_columns import FEWEST_ROWS, HashColumns, PlainRows, hash_columns, id_kind, is_plain
from prefixscope.logs.known_pieces import KnownPieces
from prefixscope.logs.lines import Decoded, LineBatch, decode_line, plain_object
from prefixscope.logs.registry import FORMATS
from prefixscope.logs.rows import Fault, LogFormat, Row
from prefixscope.logs.times import Clock
from prefixscope.records import Json, LoggedRequest, Source

__all__ = ["ParsedBatch", "first_requests", "parse_batch", "request_count"]


@dataclass(frozen=True, slots=True)
class ParsedBatch:
    """What `parse_batch` found, in line order. `times` and `resolution_ns` are those of `times.Clock`."""

    records: tuple[LoggedRequest | HashColumns, ...]
    faults: tuple[Fault, ...]
    blank_lines: tuple[int, ...]
    times: dict[str, int]
    resolution_ns: int | None


def parse_batch(
    batch: LineBatch, plan: FilePlan, *, columns: bool = False, known: KnownPieces | None = None
) -> ParsedBatch:
    """The requests of a batch of lines. Pure: the same bytes and plan give the same records, in any process.

    With `columns`, plain rows of a hash trace that follow one another come as one HashColumns. `known` is a memory of
    the batches before, which saves time; records then share their messages.
    """
    clock = Clock(plan.clock, plan.tick)
    found = _Found([], [Fault(line, reason, "skip") for line, reason in batch.skipped_lines], [])
    with _collector_paused():
        if columns and FORMATS[plan.format].has_columns:
            _parse_columns(batch, plan, clock, found)
        else:
            _parse(batch, plan, clock, found, known or KnownPieces())
    return ParsedBatch(
        tuple(found.records), tuple(found.faults), tuple(found.blank_lines), clock.seen, clock.resolution
    )


@dataclass(frozen=True, slots=True)
class _Found:
    records: list[LoggedRequest | HashColumns]
    faults: list[Fault]
    blank_lines: list[int]


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Decoded JSON holds no cycles; searching it for some while it grows takes twice as long as decoding it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _parse(batch: LineBatch, plan: FilePlan, clock: Clock, found: _Found, known: KnownPieces) -> None:
    last = batch.last_line if batch.ends_cut else -1
    for line, raw in batch.lines():
        value = known.plain_object(raw)
        if value is not None:
            _read(line, raw, value, plan, clock, found)
        elif not raw or raw.isspace():
            found.blank_lines.append(line)
        else:
            _read_all(line, raw, decode_line(raw, may_be_cut=line == last), plan, clock, found)


def _read_all(line: int, raw: bytes, decoded: Decoded, plan: FilePlan, clock: Clock, found: _Found) -> None:
    """What one line holds, with everything that is wrong with it."""
    found.faults.extend(Fault(line, reason, "warning", detail) for reason, detail in decoded.notes)
    for value in decoded.values:
        _read(line, raw, value, plan, clock, found)
    if decoded.fault is not None:
        found.faults.append(Fault(line, decoded.fault, "skip"))


def _read(line: int, raw: bytes, value: dict[str, Json], plan: FilePlan, clock: Clock, found: _Found) -> None:
    row = Row(value, Source(plan.file, line), clock, found.faults, raw, plan.unit)
    found.records.extend(_reader(FORMATS[plan.format], value).read(row))


def _parse_columns(batch: LineBatch, plan: FilePlan, clock: Clock, found: _Found) -> None:
    """As `_parse`; plain rows are held back until a line comes that holds requests and is no plain row."""
    last = batch.last_line if batch.ends_cut else -1
    unit = plan.unit or FORMATS[plan.format].hash_unit or 0
    held = PlainRows([], [], [])
    for line, raw in batch.lines():
        value = plain_object(raw)
        if value is not None and is_plain(value, unit):
            held.append(line, raw, value)
            continue
        if not raw or raw.isspace():
            found.blank_lines.append(line)
            continue
        decoded = decode_line(raw, may_be_cut=line == last)
        if decoded.fault is None and len(decoded.values) == 1 and is_plain(decoded.values[0], unit):
            found.faults.extend(Fault(line, reason, "warning", detail) for reason, detail in decoded.notes)
            held.append(line, raw, decoded.values[0])
            continue
        mine, own = _Found([], found.faults, found.blank_lines), Clock(clock.kind, clock.unit)
        _read_all(line, raw, decoded, plan, own, mine)
        if mine.records or own.seen:
            _read_held(held, plan, unit, clock, found)
            held = PlainRows([], [], [])
            found.records.extend(mine.records)
            clock.include(own)
    _read_held(held, plan, unit, clock, found)


def _read_held(rows: PlainRows, plan: FilePlan, unit: int, clock: Clock, found: _Found) -> None:
    """Columns of all rows; where some hold ids that are no 64-bit numbers, of those between them."""
    if len(rows) < FEWEST_ROWS:
        for line, raw, value in rows:
            _read(line, raw, value, plan, clock, found)
        return
    columns = hash_columns(rows, plan.file, unit, clock, found.faults)
    if columns is not None:
        found.records.append(columns)
        return
    held = PlainRows([], [], [])
    for line, raw, value in rows:
        kind = id_kind(value["hash_ids"])
        if kind == "small":
            held.append(line, raw, value)
            continue
        if kind == "large":
            _read_held(held, plan, unit, clock, found)
            held = PlainRows([], [], [])
        _read(line, raw, value, plan, clock, found)  # ids that are no numbers make no request
    _read_held(held, plan, unit, clock, found)


def _reader(format: LogFormat, value: dict[str, Json]) -> LogFormat:
    """The file's format, or another one of its family that fits this row better."""
    if format.family == "openai" and not format.recognises(value):
        for other in FORMATS.values():
            if other.family == format.family and other.recognises(value):
                return other
    return format


def request_count(records: Sequence[LoggedRequest | HashColumns]) -> int:
    """How many requests these are."""
    return sum(len(record) if isinstance(record, HashColumns) else 1 for record in records)


def first_requests(
    records: Sequence[LoggedRequest | HashColumns], requests: int
) -> tuple[tuple[LoggedRequest | HashColumns, ...], int]:
    """The first requests, and the line of the last of them (0 where there is none)."""
    kept: list[LoggedRequest | HashColumns] = []
    last_line = 0
    for record in records:
        if not requests:
            break
        if isinstance(record, HashColumns):
            record = record.head(requests)
            last_line = int(record.line[-1])
        else:
            last_line = record.source.line
        kept.append(record)
        requests -= request_count((record,))
    return tuple(kept), last_line
