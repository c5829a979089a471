"""Rows: the same columns and values as JSON lines and as Parquet."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prefixscope.errors import OptionError, PrefixscopeError
from prefixscope.output import OutputFile
from prefixscope.report.rows import COLUMNS, row_format, write_rows

ROWS: dict[str, Any] = {
    "row": [0, 1, 2],
    "request_id": ["a", None, "\udc80"],
    "time": [1_795_000_000_000_000_001, None, np.iinfo(np.int64).min],
    "prompt_tokens": np.array([10, 20, 30]),
    "cached_tokens": [0, 16, 16],
    "parent_row": [None, 0, 1],
    "parent": [None, "a", None],
    "loss_capacity": [None, None, None],
    "extra_column": ["x", "y", "z"],
}

CONTRACT = [
    "row", "request_id", "time", "model", "namespace", "replica", "session_id", "tenant", "prompt_tokens",
    "output_tokens", "sequence_tokens", "shared_tokens", "shared_prompt_tokens", "reusable_tokens", "cached_tokens",
    "expected_cached_tokens", "prefill_tokens", "parent_row", "parent", "measured_cached_tokens", "loss_last_token",
    "loss_block_rounding", "loss_engine_rule", "loss_in_flight", "loss_routing", "loss_capacity", "break_cause",
    "break_candidate_row", "break_part", "first_different_token", "below_unit",
]  # fmt: skip


def json_lines(rows: dict[str, Any]) -> list[dict[str, Any]]:
    out = io.BytesIO()
    write_rows(rows, out, "x.jsonl")
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_columns_are_those_of_the_contract() -> None:
    assert list(COLUMNS) == CONTRACT
    assert list(json_lines(ROWS)[0]) == [*CONTRACT, "extra_column"]


def test_json_lines_values() -> None:
    first, second, third = json_lines(ROWS)
    assert first["time"] == "2026-11-18T11:06:40.000000001Z"
    assert second["time"] is None
    assert third["time"] is None, "the mark for an unknown instant is not an instant"
    assert (second["prompt_tokens"], second["cached_tokens"], second["parent"]) == (20, 16, "a")
    assert first["loss_capacity"] is None
    assert first["break_cause"] is None
    assert third["request_id"] == "\\udc80"


def test_parquet_equals_json_lines() -> None:
    out = io.BytesIO()
    assert write_rows(ROWS, out, "x.parquet") == 3
    table = pq.read_table(io.BytesIO(out.getvalue()))
    assert table.column_names == [*CONTRACT, "extra_column"]
    assert table.schema.field("time").type == pa.timestamp("ns", "UTC")
    assert table.schema.field("loss_capacity").type == pa.int64()
    assert table.schema.field("break_cause").type == pa.string()
    for mine, line in zip(table.drop_columns(["time"]).to_pylist(), json_lines(ROWS), strict=True):
        line.pop("time")
        assert mine == line
    assert table["time"].cast(pa.int64()).to_pylist() == [1_795_000_000_000_000_001, None, None]
    assert datetime.fromtimestamp(1_795_000_000, UTC).isoformat() == "2026-11-18T11:06:40+00:00"


def test_many_rows_in_batches() -> None:
    count = 70_001
    lines = json_lines({"row": list(range(count))})
    assert [line["row"] for line in lines] == list(range(count))


def test_no_rows() -> None:
    assert json_lines({"row": []}) == []
    out = io.BytesIO()
    write_rows({}, out, "x.parquet")
    assert pq.read_table(io.BytesIO(out.getvalue())).num_rows == 0


def test_the_name_chooses_the_format() -> None:
    assert [row_format(path) for path in ("a.parquet", "a.jsonl", "a.ndjson", "-", "/dev/stdout")] == [
        "parquet", "jsonl", "jsonl", "jsonl", "jsonl"
    ]  # fmt: skip
    with pytest.raises(OptionError, match=r"must end in \.jsonl or \.parquet"):
        row_format("rows.csv")


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet"])
def test_a_full_disk_is_a_sentence_in_both_formats(name: str) -> None:
    with (
        pytest.raises(PrefixscopeError, match="the disk is full"),
        OutputFile("/dev/full", option="--requests") as handle,
    ):
        write_rows({"row": list(range(300_000))}, handle, name)
