"""Log files to a stream of LoggedRequest in file order, with an account of everything that was left out.

`read_logs` does it all in this process. `OpenLog.batches` and `parse_batch` are its two halves: bytes in order on one
side, a pure function of (batch, plan) on the other, so that parsing can run in other processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from prefixscope.errors import GateFailed, InputError, OptionError
from prefixscope.logs.compression import BrokenStreamError, decompressed
from prefixscope.logs.detect import FilePlan, plan_for
from prefixscope.logs.documents import MAX_DOCUMENT_BYTES, document_batches
from prefixscope.logs.hash_columns import HashColumns
from prefixscope.logs.known_pieces import KnownPieces
from prefixscope.logs.ledger import FileSummary, Ledger
from prefixscope.logs.lines import BATCH_BYTES, MAX_LINE_BYTES, LineBatch, line_batches
from prefixscope.logs.parsing import ParsedBatch, first_requests, parse_batch, request_count
from prefixscope.logs.registry import FORMATS
from prefixscope.logs.rows import EXCLUSIONS, Fault
from prefixscope.logs.source import LogFile, raw_chunks
from prefixscope.records import LoggedRequest

__all__ = ["LogReading", "OpenLog", "ParsedBatch", "ReadOptions", "parse_batch", "read_logs"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """`format` forces one for every file without its own; `strict` fails at the first broken row; `limit` stops after
    so many requests; `hash_unit` is the number of tokens per hash id where the file does not say it."""

    format: str | None = None
    strict: bool = False
    limit: int | None = None
    hash_unit: int | None = None


class OpenLog:
    """A log file that was opened and whose format is known; `batches` may be taken once.

    Raises InputError (missing, unreadable, empty, binary) and FormatError (no format fits).
    """

    def __init__(self, file: LogFile, options: ReadOptions) -> None:
        self.file = file
        self.broken: str | None = None
        """Why the compressed data could not be read to its end, once `batches` is through."""
        self._chunks = self._guarded(decompressed(raw_chunks(file.path)))
        head: list[bytes] = []
        held = 0
        has_line, whole = False, True
        for chunk in self._chunks:
            head.append(chunk)
            held += len(chunk)
            has_line = has_line or b"\n" in chunk
            # The format is told from whole lines, so a long first line is waited for.
            if held >= BATCH_BYTES and (has_line or held > MAX_LINE_BYTES):
                whole = False
                break
        self._head = b"".join(head)
        if not self._head:
            raise InputError("is empty" if self.broken is None else _unpacking_failed(self.broken), file=file.path)
        self.plan: FilePlan = plan_for(
            file.path,
            self._head,
            whole=whole,
            forced=file.format or options.format,
            hash_unit=options.hash_unit,
        )

    def _guarded(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from chunks
        except BrokenStreamError as error:
            self.broken = error.reason

    def batches(self) -> Iterator[LineBatch]:
        """The file's lines in order. At the end a fault of the compressed data is a skipped line of the last batch."""
        stream = chain([self._head], self._chunks)
        batches = line_batches(stream) if self.plan.layout == "lines" else self._document(stream)
        batch = LineBatch(b"", 1, ends_cut=True)
        for batch in batches:
            yield batch
        if self.broken is not None:
            line = batch.last_line
            yield LineBatch(b"", line, skipped_lines=((line, self.broken),))

    def _document(self, stream: Iterator[bytes]) -> Iterator[LineBatch]:
        parts: list[bytes] = []
        held = 0
        for chunk in stream:
            parts.append(chunk)
            held += len(chunk)
            if held > MAX_DOCUMENT_BYTES:
                raise InputError(
                    f"is one JSON document of more than {MAX_DOCUMENT_BYTES >> 20} MiB; write one object a line "
                    "(for example with `jq -c '.[]'`)",
                    file=self.file.path,
                )
        return document_batches(b"".join(parts))


def _unpacking_failed(reason: str) -> str:
    how, _, kind = reason.partition("_")
    return f"can't be unpacked: the {kind} data {'ends early' if how == 'truncated' else 'is damaged'}"


class LogReading:
    """Iterating gives every request once, in the order of the files and their lines; `ledger` fills meanwhile."""

    def __init__(self, files: Sequence[LogFile], options: ReadOptions) -> None:
        if options.format is not None and options.format not in FORMATS:
            raise OptionError(
                f"--format {options.format}: there is no such format; known are {', '.join(sorted(FORMATS))}"
            )
        self.files = tuple(files)
        self.options = options
        self.ledger = Ledger()

    def __iter__(self) -> Iterator[LoggedRequest]:
        for request in self.runs(columns=False):
            assert isinstance(request, LoggedRequest)
            yield request

    def runs(self, *, columns: bool = True) -> Iterator[LoggedRequest | HashColumns]:
        """The same requests; with `columns`, plain rows of hash traces come many at once."""
        known = KnownPieces()
        for file in self.files:
            if self._remaining() == 0:
                return
            log = OpenLog(file, self.options)
            summary = self.begin(log.plan)
            for batch in log.batches():
                yield from self.take(parse_batch(batch, log.plan, columns=columns, known=known), summary)
                if self._remaining() == 0:
                    return

    def begin(self, plan: FilePlan) -> FileSummary:
        """Opens a file's account in the ledger."""
        if any(summary.plan.file == plan.file for summary in self.ledger.files):
            self.ledger.note(plan.file, Fault(1, "file_named_twice", "warning"))
        summary = FileSummary(plan)
        self.ledger.files.append(summary)
        return summary

    def take(self, parsed: ParsedBatch, summary: FileSummary) -> tuple[LoggedRequest | HashColumns, ...]:
        """Enters a parsed batch into the ledger, in file order, and gives its requests up to the limit.

        Raises GateFailed, naming file, line and reason, for a broken row under `strict`.
        """
        records, last_line = parsed.records, None
        remaining = self._remaining()
        if remaining is not None and request_count(records) >= remaining:
            records, last_line = first_requests(records, remaining)
        for fault in sorted(parsed.faults, key=lambda fault: fault.line):
            if last_line is not None and fault.line > last_line:
                break
            if self.options.strict and fault.kind == "skip" and fault.reason not in EXCLUSIONS:
                raise GateFailed(f"--strict: {summary.plan.file}:{fault.line}: {fault.reason}")
            self.ledger.note(summary.plan.file, fault)
        for line in parsed.blank_lines:
            if last_line is None or line <= last_line:
                self.ledger.note_blank(summary, line)
        for form, count in parsed.times.items():
            summary.times[form] = summary.times.get(form, 0) + count
        if parsed.resolution_ns is not None:
            summary.resolution_ns = min(parsed.resolution_ns, summary.resolution_ns or parsed.resolution_ns)
        requests = request_count(records)
        summary.requests += requests
        summary.missing_times += sum(
            record.missing_times if isinstance(record, HashColumns) else record.time_ns is None for record in records
        )
        self.ledger.requests_read += requests
        return records

    def _remaining(self) -> int | None:
        return None if self.options.limit is None else self.options.limit - self.ledger.requests_read


def read_logs(files: Sequence[LogFile], options: ReadOptions | None = None) -> LogReading:
    """Reads log files: iterate over the result, then look at its `ledger`."""
    return LogReading(files, options or ReadOptions())
