"""gzip and zstd: several members, damage, truncation."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
import zstandard

from prefixscope.errors import InputError
from tests.logs.reading_of import read_bytes, skips

PROMPTS = [random.Random(place).randbytes(300).hex().encode() for place in range(3000)]
ROWS = [b'{"id": "%d", "prompt": "%s"}\n' % row for row in enumerate(PROMPTS)]
PLAIN = b"".join(ROWS)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def zstd_stream(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress(PLAIN),
        gzip.compress(PLAIN[:1000]) + gzip.compress(b"") + gzip.compress(PLAIN[1000:]) + b"\0" * 512,
        zstd(PLAIN),
        zstd_stream(PLAIN),
        zstd(PLAIN[:1000]) + b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstd(PLAIN[1000:]),
        b"\x5f\x2a\x4d\x18\x03\0\0\0abc" + zstd(PLAIN),
    ],
    ids=["gzip", "gzip members", "zstd", "zstd stream", "zstd frames", "zstd skippable first"],
)
def test_packed_equals_plain(tmp_path: Path, packed: bytes) -> None:
    records, ledger = read_bytes(tmp_path, packed)
    assert [record.request_id for record in records] == [str(place) for place in range(len(ROWS))]
    assert not ledger.skipped


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_what_was_read_before_a_cut_stays(tmp_path: Path, kind: str) -> None:
    packed = gzip.compress(PLAIN) if kind == "gzip" else zstd_stream(PLAIN)
    records, ledger = read_bytes(tmp_path, packed[: len(packed) * 2 // 3])
    assert 1000 < len(records) < len(ROWS)
    assert [record.request_id for record in records] == [str(place) for place in range(len(records))]
    assert skips(ledger)[-1][1] == f"truncated_{kind}"
    assert all(reason in (f"truncated_{kind}", "truncated_last_line") for _, reason in skips(ledger))


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_damage_is_counted_not_raised(tmp_path: Path, kind: str) -> None:
    packed = bytearray(gzip.compress(PLAIN) if kind == "gzip" else zstd_stream(PLAIN))
    dice = random.Random(7)
    for _ in range(12):
        broken = bytearray(packed)
        start = dice.randrange(10, len(broken))
        broken[start : start + 20] = dice.randbytes(20)
        try:
            records, ledger = read_bytes(tmp_path, bytes(broken))
        except InputError:
            continue  # nothing readable before the damage
        assert ledger.skipped
        assert {skip.reason for skip in ledger.skipped} & {f"corrupt_{kind}", f"truncated_{kind}"}
        assert all(isinstance(record.request_id, str) for record in records)


def test_rubbish_behind_a_member_is_damage(tmp_path: Path) -> None:
    records, ledger = read_bytes(tmp_path, gzip.compress(PLAIN) + b"rubbish")
    assert len(records) == len(ROWS)
    assert skips(ledger) == [(len(ROWS), "corrupt_gzip")]
