"""The lineage as a Parquet file: what `prefixscope index` writes and every later command can read. It holds no text.

One row per request in time order; the row number is the identity used inside. File metadata carries the schema name,
namespaces, pools and provenance as JSON. Pages carry checksums and the head a fingerprint, so a damaged file is noticed
and not misread.
"""

from __future__ import annotations

import json
from typing import IO, Any

import numpy as np
import xxhash

from prefixscope.errors import IndexFileError
from prefixscope.index.lineage import NO_TIME, OUTPUTS, UNKNOWN, BreakColumns, Int64, Labels, Lineage

__all__ = ["INDEX_SCHEMA", "read_index", "write_index"]

INDEX_SCHEMA = "prefixscope.index/1"
_KEY = b"prefixscope"
_FINGERPRINT = b"prefixscope.fingerprint"
_LARGEST = 2**42
"""Token counts of a row lie below this, so that sums over a log fit into 64 bits."""

_TIMES = {"time": "time_ns", "first_token_at": "first_token_ns", "finished_at": "finished_ns"}
_LABELS = ("file", "model", "adapter", "session", "tenant", "replica")
_LABEL_NAMES = {"session": "session_id"}
_COUNTS = ("line", "namespace", "pool", "unit", "tier", "n", "prompt_tokens", "sequence_tokens")
_NULLABLE = ("status", "output_tokens", "measured_prompt_tokens", "measured_cached_tokens")
_SHARING = ("shared_tokens", "shared_prompt_tokens")
_ISOLATION = "shared_tokens_without_isolation"
_BREAK_WORDS = {"break_cause": "cause", "break_part": "part", "break_detail": "detail"}
_BREAK_NUMBERS = {
    "break_candidate_row": "candidate_row", "first_different_token": "first_different_token", "break_place": "place",
    "break_lost_tokens": "lost_tokens", "almost_tokens": "almost_tokens",
}  # fmt: skip


def write_index(lineage: Lineage, file: IO[bytes], *, tool_version: str) -> None:
    """Writes the table as Parquet with zstd and page checksums to an open binary file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {
        "request_id": pa.array(lineage.request_id.tolist(), pa.string()),
        "output": pa.array([OUTPUTS[code] for code in lineage.output.tolist()], pa.string()).dictionary_encode(),
        "reads_cache": pa.array(lineage.reads_cache),
        "parent_row": _nullable(lineage.parent_row),
    }
    for name, attribute in _TIMES.items():
        values = getattr(lineage, attribute)
        columns[name] = pa.array(values, pa.timestamp("ns", "UTC"), mask=values == NO_TIME)
    for name in _LABELS:
        columns[_LABEL_NAMES.get(name, name)] = _words(getattr(lineage, name))
    for name in _COUNTS + _SHARING:
        columns[name] = pa.array(getattr(lineage, name))
    for name in _NULLABLE:
        columns[name] = _nullable(getattr(lineage, name))
    if lineage.shared_tokens_without_isolation is not None:
        columns[_ISOLATION] = pa.array(lineage.shared_tokens_without_isolation)
    if lineage.breaks is not None:
        columns |= {name: _words(getattr(lineage.breaks, field)) for name, field in _BREAK_WORDS.items()}
        columns |= {name: _nullable(getattr(lineage.breaks, field)) for name, field in _BREAK_NUMBERS.items()}
    head = {
        "schema": INDEX_SCHEMA,
        "tool_version": tool_version,
        "rows": len(lineage),
        "columns": list(columns),
        "namespaces": lineage.namespaces,
        "pools": lineage.pools,
        "provenance": dict(lineage.provenance),
    }
    raw = json.dumps(head).encode()
    table = pa.table(columns).replace_schema_metadata({_KEY: raw, _FINGERPRINT: xxhash.xxh3_128_hexdigest(raw)})
    pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def _words(labels: Labels) -> Any:
    import pyarrow as pa

    codes = pa.array(labels.codes, mask=labels.codes == UNKNOWN)
    # A file name that is not UTF-8 reaches us with lone surrogates, which Parquet can't hold.
    names = [name.encode("utf-8", "backslashreplace").decode() for name in labels.names]
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))


def _nullable(values: Int64) -> Any:
    import pyarrow as pa

    return pa.array(values, mask=values == UNKNOWN)


def read_index(path: str) -> Lineage:
    """The lineage stored at `path`.

    Raises IndexFileError where it is no index, is damaged, or was written by a newer version.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, page_checksum_verification=True, use_threads=False)
    except FileNotFoundError as error:
        raise IndexFileError("no such file", file=path) from error
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise IndexFileError(
            f"the index is damaged or is no Parquet file ({reason}); index the log again", file=path
        ) from error
    head = _head(table, path)
    try:
        lineage = _lineage(table, head)
        _check(lineage)
    except (KeyError, AssertionError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise IndexFileError(f"the index does not hold together ({error!r}); index the log again", file=path) from error
    return lineage


def _check(lineage: Lineage) -> None:
    """Asserts what every lineage of ours holds beyond its own checks, so that no later step meets the impossible."""
    assert isinstance(lineage.provenance, dict) and isinstance(lineage.provenance.get("input", {}), dict)
    for names in (lineage.namespaces, lineage.pools, *(getattr(lineage, name).names for name in _LABELS)):
        assert all(isinstance(name, str) for name in names)
    assert all(one is None or isinstance(one, str) for one in lineage.request_id.tolist())
    limits = {
        "namespace": (0, len(lineage.namespaces)), "pool": (0, len(lineage.pools)), "unit": (1, _LARGEST),
        "tier": (1, 7), "n": (1, _LARGEST), "prompt_tokens": (1, _LARGEST), "sequence_tokens": (1, _LARGEST),
        "shared_prompt_tokens": (0, _LARGEST), **dict.fromkeys(_NULLABLE, (UNKNOWN, _LARGEST)),
    }  # fmt: skip
    for name, (least, end) in limits.items():
        values = getattr(lineage, name)
        assert ((values >= least) & (values < end)).all(), name
    assert (lineage.sequence_tokens >= lineage.prompt_tokens).all(), "sequence_tokens"
    assert (np.diff(lineage.time_ns) >= 0).all(), "time"
    child = np.flatnonzero(lineage.parent_row >= 0)
    assert (lineage.namespace[child] == lineage.namespace[lineage.parent_row[child]]).all(), "parent_row"


def _head(table: Any, path: str) -> dict[str, Any]:
    metadata = table.schema.metadata or {}
    raw = metadata.get(_KEY)
    if raw is None:
        raise IndexFileError("a Parquet file, but not an index written by `prefixscope index`", file=path)
    try:
        head: dict[str, Any] = json.loads(raw)
        head["rows"], head["namespaces"], head["pools"], head["provenance"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IndexFileError("the index is damaged (its head can't be read); index the log again", file=path) from error
    name, _, major = str(head.get("schema", "")).partition("/")
    if name != INDEX_SCHEMA.partition("/")[0] or not major.isdigit():
        raise IndexFileError(f"unknown index schema {head.get('schema')!r}", file=path)
    if int(major) > int(INDEX_SCHEMA.partition("/")[2]):
        raise IndexFileError(
            f"written by prefixscope {head.get('tool_version')} with schema {head['schema']}; this version reads "
            f"{INDEX_SCHEMA}: update prefixscope",
            file=path,
        )
    fingerprint = metadata.get(_FINGERPRINT)
    whole = fingerprint is None or fingerprint.decode("ascii", "replace") == xxhash.xxh3_128_hexdigest(raw)
    if not whole or not {*head.get("columns", ())} <= {*table.column_names}:
        raise IndexFileError("the index is damaged (its head has changed); index the log again", file=path)
    if head["rows"] != table.num_rows:
        raise IndexFileError(f"{table.num_rows} rows where {head['rows']} were written; index the log again", file=path)
    return head


def _lineage(table: Any, head: dict[str, Any]) -> Lineage:
    columns: dict[str, Any] = {}
    for name, attribute in _TIMES.items():
        columns[attribute] = _integers(table[name].cast("int64"), NO_TIME)
    for name in _LABELS:
        columns[name] = _labels(table[_LABEL_NAMES.get(name, name)])
    for name in _COUNTS + _SHARING:
        columns[name] = _integers(table[name], UNKNOWN)
    for name in (*_NULLABLE, "parent_row"):
        columns[name] = _integers(table[name], UNKNOWN)
    known = {name: code for code, name in enumerate(OUTPUTS)}
    columns["output"] = np.array([known[value] for value in table["output"].to_pylist()], np.int64)
    columns["reads_cache"] = table["reads_cache"].to_numpy().astype(np.bool_)
    columns["request_id"] = np.array(table["request_id"].to_pylist() or [], dtype=object)
    if _ISOLATION in table.column_names:
        columns[_ISOLATION] = _integers(table[_ISOLATION], UNKNOWN)
    if {*_BREAK_WORDS, *_BREAK_NUMBERS} <= {*table.column_names}:
        parts: dict[str, Any] = {field: _labels(table[name]) for name, field in _BREAK_WORDS.items()}
        parts |= {field: _integers(table[name], UNKNOWN) for name, field in _BREAK_NUMBERS.items()}
        columns["breaks"] = BreakColumns(**parts)
    return Lineage(
        **columns,
        namespaces=tuple(head["namespaces"]),
        pools=tuple(head["pools"]),
        provenance=head["provenance"],
    )


def _labels(table_column: Any) -> Labels:
    column = table_column.combine_chunks()
    codes = _integers(column.indices, UNKNOWN).astype(np.int32)
    return Labels(codes, tuple(column.dictionary.to_pylist()))


def _integers(column: Any, missing: int) -> Int64:
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = pc.fill_null(column, missing)
    if isinstance(filled, pa.Array):
        return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)
    return np.asarray(filled.to_numpy(), np.int64)
