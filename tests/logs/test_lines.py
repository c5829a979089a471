"""Bytes to objects: reasons, places, and that nothing is changed without a word."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixscope.errors import GateFailed
from prefixscope.logs.lines import MAX_DEPTH, decode_line, line_batches, plain_object
from tests.logs.reading_of import read_bytes, skips
from tests.shared import SHARED, needs_shared


def case(number: int) -> Any:
    return json.loads(next((SHARED / "cases").glob(f"{number}-*.json")).read_bytes())


@needs_shared
def test_broken_lines(tmp_path: Path) -> None:
    """../shared/cases/40."""
    expected = case(40)["expect"]
    data = "\n".join(case(40)["lines"]).encode()
    records, ledger = read_bytes(tmp_path, data)
    assert [record.request_id for record in records] == expected["read_ids"]
    assert skips(ledger) == [(skip["line"], skip["reason"]) for skip in expected["skipped"]]
    assert [line for _, line in ledger.located_blank_lines] == expected["blank_lines"] and ledger.blank_lines == 1
    for warning in expected["warnings"]:
        assert any(warning.items() <= logged.items() for logged in ledger.warnings)
    with pytest.raises(GateFailed, match=r"log\.jsonl:3: invalid_json"):
        read_bytes(tmp_path, data, strict=True)


@needs_shared
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_not_utf8(tmp_path: Path, end: bytes) -> None:
    """../shared/cases/41."""
    expected = case(41)["expect"]
    data = b"\n".join(base64.b64decode(line) for line in case(41)["lines_base64"]) + end
    records, ledger = read_bytes(tmp_path, data)
    assert [record.request_id for record in records] == expected["read_ids"]
    assert skips(ledger) == [(skip["line"], skip["reason"]) for skip in expected["skipped"]]
    assert {"line": 3, "reason": "lone_surrogate"}.items() <= dict(ledger.warnings[0]).items()
    assert records[1].body["prompt"] == "\ufffd half"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a": 18446744073709551616}', {"a": 2**64}),
        (b'{"a": [-9223372036854775809, 1]}', {"a": [-(2**63) - 1, 1]}),
        (b'{"a": 18446744073709551615}', {"a": 2**64 - 1}),
        (b'{"a": 1' + b"0" * 60 + b"}", {"a": 10**60}),
        (b'{"x":"\\u003a","\\u003a":1}', {"x": ":", ":": 1}),
        ('\ufeff{"a": "é"}\r'.encode(), {"a": "é"}),
    ],
)
def test_values_come_through_unchanged(raw: bytes, value: Any) -> None:
    decoded = decode_line(raw)
    assert decoded.values == (value,) and decoded.fault is None


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"{", "truncated_last_line"),
        (b'{"a": tru', "truncated_last_line"),
        (b'{"a": "\\ud8', "truncated_last_line"),
        (b'{"a": "x', "truncated_last_line"),
        (b'{"a": "caf\xc3', "truncated_last_line"),
        (b'{"a": 1}{"b"', "truncated_last_line"),
        (b"not json at all", "invalid_json"),
        (b'{"a" 1, "bbbbbbbbbbbbbbbbbbbbbbbbb": 2}', "invalid_json"),
        (b'{"a": "caf\xe9"}', "invalid_utf8"),
        (b"1", "not_an_object"),
        (b"[]", "not_an_object"),
        (b"[" * 100_000, None),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, None),
        (b'{"a": ' + b"9" * 10_000 + b"}", "invalid_json"),
    ],
)
def test_faults_of_a_last_line(raw: bytes, fault: str | None) -> None:
    decoded = decode_line(raw, may_be_cut=True)
    if fault is None:
        assert decoded.fault in ("too_deeply_nested", "invalid_json", "truncated_last_line")
    else:
        assert decoded.fault == fault
    assert decode_line(raw).fault != "truncated_last_line"


@pytest.mark.parametrize("spaces", [b"", b" "])
def test_both_readers_refuse_the_same_depth(spaces: bytes) -> None:
    for depth, kept in [(MAX_DEPTH, 1), (MAX_DEPTH + 1, 0)]:
        decoded = decode_line(b'{"a":' + spaces + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}")
        assert len(decoded.values) == kept
        assert decoded.fault == (None if kept else "too_deeply_nested")


def with_pairs(raw: str) -> tuple[Any, list[str]]:
    """The slow reader: every repeated key, by Python's own json."""
    repeated: list[str] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        repeated.extend(key for place, key in enumerate(keys) if key in keys[:place])
        return dict(pairs)

    return json.loads(raw, object_pairs_hook=build), repeated


KEYS = ["a", "b", ":", "a:", 'q"', "\\u003a", "é"]


def random_text(dice: random.Random, depth: int) -> str:
    """JSON text with odd keys, escapes, repeated keys and large integers, in odd spacing."""
    blank = dice.choice(["", " ", "  "])
    if depth == 0 or dice.random() < 0.3:
        return dice.choice(
            [
                json.dumps("x" * dice.randrange(3) + dice.choice([": ", "\\", '"', "é", "1" * 25])),
                str(dice.randrange(10 ** dice.randrange(1, 24))),
                str(-dice.randrange(10 ** dice.randrange(1, 24))),
                "null",
                "1.5",
                '"\\u003a"',
                '"\\u003A\\u003c"',
            ]
        )
    if dice.random() < 0.3:
        return "[" + ("," + blank).join(random_text(dice, depth - 1) for _ in range(dice.randrange(4))) + "]"
    pairs = [
        json.dumps(dice.choice(KEYS), ensure_ascii=dice.random() < 0.5) + blank + ":" + random_text(dice, depth - 1)
        for _ in range(dice.randrange(5))
    ]
    return "{" + ("," + blank).join(pairs) + "}"


def test_repeated_keys_and_large_integers_never_slip_through() -> None:
    dice = random.Random(11)
    seen = kept = 0
    for _ in range(6000):
        text = '{"top":' + random_text(dice, 4) + "}"
        value, repeated = with_pairs(text)
        decoded = decode_line(text.encode())
        assert decoded.values == (value,)
        assert list(map(type, decoded.values[0])) == list(map(type, value))
        assert [detail["key"] for reason, detail in decoded.notes if reason == "duplicate_key"] == repeated
        seen += bool(repeated)
        kept += not repeated
    assert seen > 1000 and kept > 1000


def test_long_integers_that_fit_need_no_second_reader() -> None:
    fitting, beyond = [2**64 - 1, 10**19, -(2**63)], [2**64, -(2**63) - 1, 10**25]
    for separators in ((",", ":"), (", ", ": "), (" , ", " : ")):
        line = json.dumps({"a b": "c, d: e", "ids": fitting}, separators=separators).encode()
        assert plain_object(line) == json.loads(line)
        for number in beyond:
            assert plain_object(json.dumps({"ids": [*fitting, number]}, separators=separators).encode()) is None
        twice = json.dumps({"x": 1, "ids": fitting}, separators=separators).encode().replace(b'"x"', b'"ids"')
        assert plain_object(twice) is None


def test_a_large_integer_is_found_wherever_it_stands() -> None:
    for filling in range(40):
        for number in (2**64, -(2**63) - 1, 10**19 * 9 + 1, 10**25):
            raw = json.dumps({"t": "x" * filling, "n": number, "u": [1, 2]}).encode()
            assert decode_line(raw).values[0]["n"] == number and isinstance(decode_line(raw).values[0]["n"], int)


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 60), st.integers(1, 80))
@settings(max_examples=150, deadline=None)
def test_batches_hold_every_line_once(chunks: list[bytes], size: int, longest: int) -> None:
    data = b"".join(chunks)
    batches = list(line_batches(iter(chunks), size=size, longest=longest))
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    found = {line: raw for batch in batches for line, raw in batch.lines()}
    skipped = [line for batch in batches for line, _ in batch.skipped_lines]
    assert sorted([*found, *skipped]) == list(range(1, len(expected) + 1))
    assert all(expected[line - 1] == raw for line, raw in found.items())
    assert all(len(expected[line - 1]) > longest for line in skipped)
    if batches and not skipped:
        assert batches[-1].last_line == len(expected)
        assert batches[-1].ends_cut == (not data.endswith(b"\n"))


def test_a_line_beyond_the_limit_is_skipped_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [b'{"prompt": "a"}\n{"prompt": "', *[b"x" * 1000] * 500, b'"}\n{"prompt": "b"}\n']
    batches = list(line_batches(iter(chunks), size=2000, longest=10_000))
    assert [raw for batch in batches for _, raw in batch.lines()] == [b'{"prompt": "a"}', b'{"prompt": "b"}']
    assert [skip for batch in batches for skip in batch.skipped_lines] == [(2, "line_too_long")]
    assert [line for batch in batches for line, _ in batch.lines()] == [1, 3]


def test_crlf_and_blank_lines(tmp_path: Path) -> None:
    records, ledger = read_bytes(tmp_path, b'{"prompt": "a"}\r\n\r\n  \n{"prompt": "b"}\r\n')
    assert [(record.body["prompt"], record.source.line) for record in records] == [("a", 1), ("b", 4)]
    assert ledger.blank_lines == 2 and not ledger.skipped


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_whole_file_array(tmp_path: Path, indent: int | None, ends: str) -> None:
    rows = [{"id": str(place), "messages": [{"role": "user", "content": f"é {place} \n"}]} for place in range(50)]
    text = json.dumps(rows, indent=indent, ensure_ascii=False).replace("\n", ends)
    records, ledger = read_bytes(tmp_path, text.encode())
    assert [record.request_id for record in records] == [row["id"] for row in rows]
    assert [record.body["messages"] for record in records] == [row["messages"] for row in rows]
    assert not ledger.skipped
    if indent is not None:
        assert "one JSON document" in ledger.files[0].plan.why
        lines = text.split(ends)
        for record in records:
            assert lines[record.source.line - 1].strip() == "{"


def test_printed_objects_and_a_cut_document(tmp_path: Path) -> None:
    printed = "\n".join(json.dumps({"prompt": str(place)}, indent=1) for place in range(4))
    records, _ = read_bytes(tmp_path, printed.encode())
    assert [record.source.line for record in records] == [1, 4, 7, 10]
    array = json.dumps([{"prompt": str(place)} for place in range(4)], indent=1)
    records, ledger = read_bytes(tmp_path, array[:-8].encode())
    assert len(records) == 3 and skips(ledger) == [(11, "truncated_document")]
    records, ledger = read_bytes(tmp_path, (array[:40] + "?" + array[40:]).encode())
    assert [reason for _, reason in skips(ledger)] == ["invalid_json"] and records
