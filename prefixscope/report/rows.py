"""One row per request, as JSON lines or Parquet: what `--requests` writes, in order of time.

The columns are fixed (`COLUMNS`), so that a file of today is read by tomorrow's script; what this build does not
compute is null. Times are ISO 8601 UTC in JSON lines and timestamp[ns, UTC] in Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from prefixscope.errors import OptionError
from prefixscope.report.json import plain
from prefixscope.report.numbers import instant

__all__ = ["COLUMNS", "row_format", "write_rows"]

COLUMNS: Mapping[str, str] = {
    "row": "int64",
    "request_id": "string",
    "time": "time",
    "model": "string",
    "namespace": "string",
    "replica": "string",
    "session_id": "string",
    "tenant": "string",
    "prompt_tokens": "int64",
    "output_tokens": "int64",
    "sequence_tokens": "int64",
    "shared_tokens": "int64",
    "shared_prompt_tokens": "int64",
    "reusable_tokens": "int64",
    "cached_tokens": "int64",
    "expected_cached_tokens": "int64",
    "prefill_tokens": "int64",
    "parent_row": "int64",
    "parent": "string",
    "measured_cached_tokens": "int64",
    "loss_last_token": "int64",
    "loss_block_rounding": "int64",
    "loss_engine_rule": "int64",
    "loss_in_flight": "int64",
    "loss_routing": "int64",
    "loss_capacity": "int64",
    "break_cause": "string",
    "break_candidate_row": "int64",
    "break_part": "string",
    "first_different_token": "int64",
    "below_unit": "bool",
}
"""Column names, in order, with their types."""

_BATCH = 65_536
_NO_TIME = -(2**63)


def row_format(path: str) -> str:
    """`jsonl` or `parquet`, by the file's name; standard output and devices take JSON lines.

    >>> row_format("rows.parquet"), row_format("-")
    ('parquet', 'jsonl')
    """
    if path.endswith(".parquet"):
        return "parquet"
    if path.endswith((".jsonl", ".ndjson")) or path == "-" or path.startswith("/dev/"):
        return "jsonl"
    raise OptionError(f"--requests {path}: the name must end in .jsonl or .parquet, which chooses the format")


def write_rows(rows: Mapping[str, Sequence[Any]], handle: IO[bytes], path: str) -> int:
    """Writes all rows to the handle in the format of `path`; gives their number.

    `rows` holds equally long columns. A column that is missing is null throughout; columns beyond `COLUMNS` follow.
    """
    count = max((len(column) for column in rows.values()), default=0)
    assert all(len(column) == count for column in rows.values()), "columns of different lengths"
    writer = _write_parquet if row_format(path) == "parquet" else _write_json_lines
    writer(rows, count, handle)
    return count


def _names(rows: Mapping[str, Sequence[Any]]) -> list[str]:
    return [*COLUMNS, *(name for name in rows if name not in COLUMNS)]


def _write_json_lines(rows: Mapping[str, Sequence[Any]], count: int, handle: IO[bytes]) -> None:
    import orjson  # here, so that `--help` does not load it

    names = _names(rows)
    for start in range(0, count, _BATCH):
        batch = [_values(rows, name, start, count) for name in names]
        made = (dict(zip(names, values, strict=True)) for values in zip(*batch, strict=True))
        handle.write(b"".join(_line(row, orjson.dumps, orjson.OPT_APPEND_NEWLINE) for row in made))


def _values(rows: Mapping[str, Sequence[Any]], name: str, start: int, count: int) -> Iterator[Any]:
    """One batch of one column as plain Python values."""
    column = rows.get(name)
    values = [None] * min(_BATCH, count - start) if column is None else _listed(column[start : start + _BATCH])
    if COLUMNS.get(name) == "time":
        return (None if time is None else instant(time) for time in _times(values))
    return iter(values)


def _line(row: Mapping[str, Any], encode: Callable[..., bytes], end_of_line: int) -> bytes:
    try:
        return encode(row, option=end_of_line)
    except TypeError:  # a lone surrogate, or a type orjson does not know
        return encode(plain(row), option=end_of_line)


def _write_parquet(rows: Mapping[str, Sequence[Any]], count: int, handle: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"int64": pa.int64(), "string": pa.string(), "bool": pa.bool_(), "time": pa.timestamp("ns", "UTC")}
    columns = {}
    for name in _names(rows):
        kind = types[COLUMNS[name]] if name in COLUMNS else None
        values = _listed(rows[name]) if name in rows else [None] * count
        if kind == types["string"]:
            values = [None if value is None else plain(str(value)) for value in values]
        if name == "time":
            values = _times(values)
        columns[name] = pa.nulls(count, kind) if name not in rows and kind else pa.array(values, kind)
    pq.write_table(pa.table(columns), handle, compression="zstd", write_page_checksum=True)


def _times(values: Sequence[Any]) -> list[int | None]:
    """Times with the lineage's mark for an unknown instant as None."""
    return [None if value is None or value == _NO_TIME else int(value) for value in values]


def _listed(column: Any) -> list[Any]:
    return list(column.tolist() if hasattr(column, "tolist") else column)
