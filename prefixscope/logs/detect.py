"""Which format a file is in, told from its first rows; never from its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from prefixscope.errors import FormatError, InputError, OptionError
from prefixscope.logs.documents import document_batches, is_document
from prefixscope.logs.lines import LineBatch, decode_line
from prefixscope.logs.registry import FORMATS
from prefixscope.logs.rows import LogFormat
from prefixscope.logs.times import ClockKind, decide_clock, field_unit
from prefixscope.records import Json

__all__ = ["FilePlan", "plan_for"]

SAMPLE_ROWS = 100
_SAMPLE_LINES = 1000
_BINARY_KINDS = (
    (b"PAR1", "a Parquet file, not a log"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"BZh", "compressed with bzip2; unpack it first (gzip and zstd are read directly)"),
    (b"\xfd7zXZ", "compressed with xz; unpack it first (gzip and zstd are read directly)"),
    (b"\x04\x22\x4d\x18", "compressed with lz4; unpack it first (gzip and zstd are read directly)"),
    (b"SQLite format 3", "an SQLite database, not a log"),
    (b"\xff\xfe", "UTF-16 text; convert it to UTF-8 first"),
    (b"\xfe\xff", "UTF-16 text; convert it to UTF-8 first"),
)


@dataclass(frozen=True, slots=True)
class FilePlan:
    """How one file is read: everything a worker needs besides the bytes.

    `why` says in words what was seen. `unit` is the number of tokens of one hash id (None where rows say it or have
    none). `clock` is decided from the first rows; `tick` is one step of a relative clock in nanoseconds.
    """

    file: str
    format: str
    why: str
    layout: Literal["lines", "document"]
    clock: ClockKind
    tick: int
    unit: int | None = None


def plan_for(
    file: str, head: bytes, *, whole: bool, forced: str | None = None, hash_unit: int | None = None
) -> FilePlan:
    """Decides how to read a file that begins with `head` (`whole`: and ends there).

    Raises InputError for binary content and FormatError, naming what was seen, where no format fits.
    """
    for magic, what in _BINARY_KINDS:
        if head.startswith(magic):
            raise InputError(f"is {what}", file=file)
    if not head.strip():
        raise InputError("holds only blank lines", file=file)
    document = is_document(head, whole=whole)
    rows = _sample(head, document)
    if forced is not None and forced not in FORMATS:
        raise OptionError(f"--format {forced}: there is no such format; known are {', '.join(sorted(FORMATS))}")
    if not rows:
        if b"\0" in head or not _mostly_text(head):
            raise InputError("is binary, not a log", file=file)
        if forced is None:
            raise FormatError(
                "no JSON object in its first lines; only logs of JSON objects are read (see `prefixscope formats`)",
                file=file,
            )
    chosen, why = _choose(file, head, rows) if forced is None else (FORMATS[forced], "forced")
    if document:
        why += "; the file is one JSON document, not one object a line"
    unit, unit_note = _hash_unit(chosen, rows, hash_unit)
    times = [(name, value) for row in rows if chosen.recognises(row) for name, value in chosen.times(row)]
    tick = next((unit for unit in (field_unit(name) for name, _ in times) if unit is not None), chosen.tick)
    clock = decide_clock((value for _, value in times), tick)
    return FilePlan(file, chosen.name, why + unit_note, "document" if document else "lines", clock, tick, unit)


def _sample(head: bytes, document: bool) -> list[dict[str, Json]]:
    """The first objects of the head."""
    batch = next(document_batches(head)) if document else LineBatch(head, 1)
    rows: list[dict[str, Json]] = []
    for number, (_, raw) in enumerate(batch.lines()):
        if len(rows) >= SAMPLE_ROWS or (number >= _SAMPLE_LINES and rows):
            break
        if raw and not raw.isspace():
            rows.extend(decode_line(raw).values)
    return rows


def _choose(file: str, head: bytes, rows: list[dict[str, Json]]) -> tuple[LogFormat, str]:
    counts = Counter({name: sum(map(format.recognises, rows)) for name, format in FORMATS.items()})
    most = max(counts.values())
    if most == 0 and b"\0" in head:
        raise InputError("is binary, not a log", file=file)
    if most == 0:
        keys = list(dict.fromkeys(key for row in rows for key in row))
        seen = ", ".join(keys[:12]) + (", ..." if len(keys) > 12 else "") if keys else "none"
        raise FormatError(
            f"is in no known format; its objects have the keys: {seen} "
            "(see `prefixscope formats`, or force one with --format)",
            file=file,
        )
    chosen = next(format for name, format in FORMATS.items() if counts[name] == most)
    return chosen, f"{chosen.signature} in {most} of the first {len(rows)} objects"


def _mostly_text(head: bytes) -> bool:
    sample = head[:65536]
    controls = sum(sample.count(bytes([code])) for code in range(32) if code not in (9, 10, 13, 27))
    try:
        sample.decode()
    except UnicodeDecodeError as error:
        if error.end < len(sample) - 4:
            controls += len(sample) // 10
    return controls * 20 < len(sample)


def _hash_unit(format: LogFormat, rows: list[dict[str, Json]], given: int | None) -> tuple[int | None, str]:
    """Tokens per hash id: as given, else the format's own, else the power of two that the lengths fit."""
    if format.hash_unit is None:
        return None, ""
    if given is not None:
        return given, f"; {given} tokens per hash id, as given"
    sizes = [size for size in map(_sizes, rows) if size is not None]
    fits = {unit: sum(_fits(size, unit) for size in sizes) for unit in (2**power for power in range(14))}
    best = max(fits, key=lambda unit: fits[unit])
    usual = format.hash_unit
    if fits[usual] * 2 < fits[best] and fits[best] * 10 >= len(sizes) * 9:
        return best, f"; {best} tokens per hash id, from the lengths of the first rows"
    return usual, f"; {usual} tokens per hash id, the format's own"


def _sizes(row: Mapping[str, Json]) -> tuple[int, int] | None:
    length, ids = row.get("input_length"), row.get("hash_ids")
    return (length, len(ids)) if isinstance(length, int) and isinstance(ids, list) and ids else None


def _fits(size: tuple[int, int], unit: int) -> bool:
    length, ids = size
    return ids in (-(-length // unit), length // unit)
