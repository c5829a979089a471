"""Log files to a stream of LoggedRequest.

reading = read_logs(expand(["logs/*.jsonl.gz", "-"], FORMATS))
for request in reading: ...
reading.ledger.skipped, reading.ledger.warnings
"""

from __future__ import annotations

from prefixscope.logs.detect import FilePlan
from prefixscope.logs.ledger import FileSummary, Ledger, Skip
from prefixscope.logs.lines import LineBatch
from prefixscope.logs.reading import LogReading, OpenLog, ParsedBatch, ReadOptions, parse_batch, read_logs
from prefixscope.logs.registry import FORMATS
from prefixscope.logs.rows import LogFormat
from prefixscope.logs.source import LogFile, expand, is_index

__all__ = [
    "FORMATS",
    "FilePlan",
    "FileSummary",
    "Ledger",
    "LineBatch",
    "LogFile",
    "LogFormat",
    "LogReading",
    "OpenLog",
    "ParsedBatch",
    "ReadOptions",
    "Skip",
    "expand",
    "is_index",
    "parse_batch",
    "read_logs",
]
