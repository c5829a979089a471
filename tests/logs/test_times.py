"""Times to nanoseconds: exact, by magnitude, never a crash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixscope.logs.times import MILLISECOND, SECOND, Clock, decide_clock
from tests.logs.reading_of import read_bytes, read_rows

T = 1_763_456_400_123_456_789


@pytest.mark.parametrize(
    ("value", "expected", "form"),
    [
        ("2025-11-18T09:00:00.123456789Z", T, "iso"),
        ("2025-11-18 10:00:00.123456789+01:00", T, "iso"),
        ("2025-11-18T04:00:00,123456789-0500", T, "iso"),
        ("2025-11-18T09:00:00.123456789", T, "iso_without_zone"),
        ("2025-11-18", 1_763_424_000 * SECOND, "iso_without_zone"),
        (T, T, "epoch_ns"),
        (str(T), T, "epoch_ns"),
        (T // 1000, T // 1000 * 1000, "epoch_us"),
        (T // 10**6, T // 10**6 * 10**6, "epoch_ms"),
        (T // 10**9, T // 10**9 * 10**9, "epoch_s"),
        ("1763456400.123456789", T, "epoch_s"),
        ("1763456400123.456789", T, "epoch_ms"),
        (1763456400.25, 1_763_456_400_250_000_000, "epoch_s"),
        (1.7634564e9, 1_763_456_400_000_000_000, "epoch_s"),
        (10**9, 10**18, "epoch_s"),
        (0, 0, "relative"),
        (1.5, 1_500_000_000, "relative"),
        ("2360", 2360 * SECOND, "relative"),
    ],
)
def test_forms(value: Any, expected: int, form: str) -> None:
    clock = Clock()
    assert clock.read(value) == expected
    assert clock.seen == {form: 1}


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -1, -0.5, 10**40, 10**19, "1e99", 1e300, "1000000-01-01T00:00:00Z",
     "2300-01-01T00:00:00Z",
     "1969-12-31T23:59:59Z", "2026-13-01", "2026-02-30T00:00:00Z", "soon", [], {}, True, "9" * 400, "\x00", "٣"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["unknown", "absolute", "relative"])
def test_impossible_times_are_missing(value: Any, kind: Any) -> None:
    clock = Clock(kind)
    assert clock.read(value) is None
    assert clock.seen == {"impossible": 1}


@given(st.integers(0, 9_223_372_035), st.integers(0, 999_999_999), st.integers(-14 * 60, 14 * 60))
@settings(max_examples=300, deadline=None)
def test_iso_agrees_with_datetime(seconds: int, nanoseconds: int, offset: int) -> None:
    local = datetime.fromtimestamp(seconds, UTC).astimezone(timezone(timedelta(minutes=offset)))
    text = f"{local:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}{local:%z}"
    assert Clock().read(text) == seconds * SECOND + nanoseconds


@given(st.integers(10**9, 9 * 10**9), st.integers(0, 999_999_999))
@settings(max_examples=300, deadline=None)
def test_a_float_keeps_the_digits_written_in_the_line(seconds: int, nanoseconds: int) -> None:
    written = f"{seconds}.{nanoseconds:09d}"
    raw = f'{{"prompt": "{seconds}. 1{written}", "ts": {written}}}'.encode()
    assert Clock("absolute").read(float(written), raw) == seconds * SECOND + nanoseconds


def test_the_clock_is_decided_per_file(tmp_path: Path) -> None:
    assert decide_clock([0, 5, None, 2360]) == "relative"
    assert decide_clock(["2026-01-01T00:00:00Z", 0]) == "absolute"
    assert decide_clock([None, "", "soon"]) == "unknown"
    records, ledger = read_rows(tmp_path, [{"prompt": "a", "timestamp": time} for time in (0, 1.5, 2_000_000_000)])
    assert [record.time_ns for record in records] == [0, 1_500_000_000, 2 * 10**18]
    assert ledger.time_is_relative and ledger.files[0].plan.clock == "relative"
    records, ledger = read_rows(tmp_path, [{"prompt": "a", "timestamp_ms": time} for time in (0, 2360)])
    assert [record.time_ns for record in records] == [0, 2360 * MILLISECOND]
    records, ledger = read_rows(tmp_path, [{"prompt": "a", "ts": time} for time in (T, str(T // 10**9), "never", 7)])
    assert [record.time_ns for record in records] == [T, T // 10**9 * 10**9, None, None]
    assert ledger.missing_times == 2 and not ledger.time_is_relative
    assert [w["line"] for w in ledger.warnings if w["reason"] == "unreadable_time"] == [3, 4]
    assert ledger.files[0].resolution_ns == 1


def test_zone_and_resolution_are_reported(tmp_path: Path) -> None:
    records, ledger = read_rows(tmp_path, [{"prompt": "a", "ts": "2026-11-18T09:00:00.120"}] * 3)
    expected = {"reason": "time_without_zone", "file": str(tmp_path / "log.jsonl"), "read_as": "UTC", "count": 3}
    assert expected in ledger.warnings
    assert ledger.files[0].resolution_ns == MILLISECOND and records[0].time_ns is not None


def test_nanoseconds_survive_the_whole_way(tmp_path: Path) -> None:
    lines = b'{"prompt":"a","timestamp":1763456400.123456789,"finished_at":1763456401123456789}\n'
    (record,), _ = read_bytes(tmp_path, lines)
    assert (record.time_ns, record.finished_ns) == (T, T + SECOND)
