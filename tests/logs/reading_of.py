"""Shared by the tests of this folder: write bytes to a file, read it, hand back records and ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prefixscope.logs import Ledger, LogFile, ReadOptions, read_logs
from prefixscope.records import LoggedRequest


def read(path: Path, **options: Any) -> tuple[list[LoggedRequest], Ledger]:
    reading = read_logs([LogFile(str(path))], ReadOptions(**options))
    return list(reading), reading.ledger


def read_bytes(folder: Path, data: bytes, **options: Any) -> tuple[list[LoggedRequest], Ledger]:
    path = folder / "log.jsonl"
    path.write_bytes(data)
    return read(path, **options)


def read_rows(folder: Path, rows: Iterable[Any], **options: Any) -> tuple[list[LoggedRequest], Ledger]:
    return read_bytes(folder, b"".join(json.dumps(row).encode() + b"\n" for row in rows), **options)


def skips(ledger: Ledger) -> list[tuple[int | None, str]]:
    return [(skip.line, skip.reason) for skip in ledger.skipped]
