"""Hostile input: whatever the bytes, only errors of ours come out, and every line is accounted for."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixscope.errors import PrefixscopeError
from prefixscope.logs import FORMATS, parse_batch
from prefixscope.logs.detect import FilePlan, plan_for
from prefixscope.logs.lines import LineBatch
from tests.logs.reading_of import read_bytes, read_rows

SEEDS = [
    b'{"prompt": "a", "timestamp": 1}\n{"messages": [{"role": "user", "content": "\\u00e9"}]}\n',
    b'{"ts": "2026-01-01T00:00:00Z", "request": {"messages": [{"role": "user"}]}, "response": {"choices": [{}]}}\n' * 3,
    b'{"timestamp": 0, "input_length": 1016, "output_length": 2, "hash_ids": [0, 1]}\n' * 3,
    b'{"id": "s", "block_size": 64, "requests": [{"t": 0, "in": 64, "out": 1, "hash_ids": [1]}]}\n' * 2,
    b'[\n {"prompt": "a"},\n {"prompt": "b"}\n]\n',
]
PIECES = [b"{", b"}", b"[", b"]", b'"', b"\n", b"null", b"1e999", b"-", b"\\ud800", b"NaN"]
PACKERS = [bytes, gzip.compress, zstandard.ZstdCompressor().compress]
MAGIC = [b"", b"{", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"[", b"\xef\xbb\xbf"]


def mutated(dice: random.Random, data: bytes) -> bytes:
    broken = bytearray(data)
    for _ in range(dice.randrange(1, 6)):
        start = dice.randrange(len(broken) + 1)
        action = dice.randrange(4)
        if action == 0:
            del broken[start : start + dice.randrange(8)]
        elif action == 1:
            broken[start:start] = dice.randbytes(dice.randrange(4))
        elif action == 2:
            broken[start:start] = dice.choice(PIECES)
        else:
            stop = start + dice.randrange(30)
            broken[start:start] = broken[start:stop]
    return bytes(broken)


@pytest.mark.parametrize("packer", PACKERS, ids=["plain", "gzip", "zstd"])
def test_mutated_logs(tmp_path: Path, packer: Any) -> None:
    dice = random.Random(3)
    read = 0
    for _ in range(300):
        data = packer(mutated(dice, dice.choice(SEEDS)))
        if packer is not bytes:
            data = mutated(dice, data) if dice.random() < 0.5 else data
        try:
            records, _ = read_bytes(tmp_path, data)
        except PrefixscopeError as error:
            assert str(error) and "\n" not in str(error)
            continue
        read += bool(records)
    assert read > 50


def test_random_bytes(tmp_path: Path) -> None:
    dice = random.Random(5)
    for _ in range(300):
        data = dice.choice(MAGIC) + dice.randbytes(dice.randrange(200))
        with pytest.raises(PrefixscopeError):
            read_bytes(tmp_path, data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "messages", "prompt", "prompt_token_ids", "request", "request_body", "response", "usage", "status", "timestamp",
    "ts", "n", "finished_at", "ttft_ms", "duration_s", "output_token_ids", "output_tokens", "adapter", "session_id",
    "metadata", "user", "path", "id", "hash_ids", "input_length", "output_length", "block_size", "requests",
    "payload", "text_input", "model",
    "choices", "custom_id", "body", "t", "in", "out", "role", "content", "delay", "parent_chat_id",
]  # fmt: skip
ROWS = st.dictionaries(
    st.sampled_from(FIELDS), JSON | st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4), max_size=8
)


@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from(sorted(FORMATS)))
@settings(max_examples=150, deadline=None)
def test_any_json_under_any_format(rows: list[dict[str, Any]], name: str) -> None:
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    try:
        plan = plan_for("x", data, whole=True, forced=name)
    except PrefixscopeError:
        return
    assert isinstance(plan, FilePlan)
    parsed = parse_batch(LineBatch(data, 1), plan)
    lines = {record.source.line for record in parsed.records} | {f.line for f in parsed.faults if f.kind == "skip"}
    sessions = name == "weka" and all(isinstance(row.get("requests"), list) for row in rows)
    assert sessions or lines == set(range(1, len(rows) + 1)), "every row is a record or a counted skip"
    for record in parsed.records:
        assert record.time_ns is None or 0 <= record.time_ns < 2**63
        assert record.n >= 1 and record.unit >= 1


def test_a_bomb_is_read_in_pieces(tmp_path: Path) -> None:
    bomb = gzip.compress(b'{"prompt": "a"}\n' + b" " * (32 << 20))
    records, _ = read_bytes(tmp_path, bomb)
    assert len(records) == 1


def test_an_empty_row_is_counted(tmp_path: Path) -> None:
    records, ledger = read_rows(tmp_path, [{"prompt": "a"}, {}])
    assert len(records) == 1 and ledger.skipped_counts == {"no_prompt": 1}
