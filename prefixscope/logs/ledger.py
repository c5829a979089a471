"""What was read and what was not: every line left out is counted, the first ones of each reason are located."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prefixscope.logs.detect import FilePlan
from prefixscope.logs.rows import EXCLUSIONS, Fault
from prefixscope.logs.times import ClockKind
from prefixscope.records import Json

__all__ = ["LOCATED", "FileSummary", "Ledger", "Skip"]

LOCATED = 20
"""So many lines of each file and reason are located; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Rows left out. One located line (count 1), or the count of the others of that file and reason (line None).

    `broken` tells a row that could not be read from one that was read well but is no prefill work.
    """

    file: str
    line: int | None
    reason: str
    count: int

    @property
    def broken(self) -> bool:
        """Whether `--strict` fails on it."""
        return self.reason not in EXCLUSIONS


@dataclass(slots=True)
class FileSummary:
    """One file: how it was read and what its times looked like.

    `times` counts readings by form (iso, epoch_ms, relative, ...); `resolution_ns` is the finest step seen.
    """

    plan: FilePlan
    requests: int = 0
    missing_times: int = 0
    blank_lines: int = 0
    times: dict[str, int] = field(default_factory=dict)
    resolution_ns: int | None = None

    @property
    def clock(self) -> ClockKind:
        """What the times read turned out to be (relative only where no absolute one was seen)."""
        if not any(form != "impossible" for form in self.times):
            return "unknown"
        return "relative" if set(self.times) <= {"relative", "impossible"} else "absolute"


class _Located:
    """Faults of one kind: the first few of each file and reason in full, a count for the rest."""

    def __init__(self) -> None:
        self.first: dict[tuple[str, str], list[Fault]] = {}
        self.counts: dict[tuple[str, str], int] = {}

    def add(self, file: str, fault: Fault) -> None:
        key = (file, fault.reason)
        count = self.counts[key] = self.counts.get(key, 0) + 1
        if count <= LOCATED:
            self.first.setdefault(key, []).append(fault)


class Ledger:
    """The account of one reading; complete once the reading was iterated to its end.

    `requests_read` counts the records given. `files` has one summary per file, in order.
    """

    def __init__(self) -> None:
        self.requests_read = 0
        self.files: list[FileSummary] = []
        self._skips = _Located()
        self._warnings = _Located()
        self._blank_lines: list[tuple[str, int]] = []

    def note(self, file: str, fault: Fault) -> None:
        """Counts a skip or a warning."""
        (self._skips if fault.kind == "skip" else self._warnings).add(file, fault)

    def note_blank(self, summary: FileSummary, line: int) -> None:
        """Counts a blank line."""
        summary.blank_lines += 1
        if len(self._blank_lines) < LOCATED:
            self._blank_lines.append((summary.plan.file, line))

    @property
    def skipped(self) -> tuple[Skip, ...]:
        """Everything left out, by file and line; the counts add up to all rows left out."""
        order = {summary.plan.file: place for place, summary in enumerate(self.files)}
        first = self._skips.first.items()
        skips = [Skip(file, fault.line, reason, 1) for (file, reason), faults in first for fault in faults]
        skips.sort(key=lambda skip: (order.get(skip.file, 0), skip.line or 0))
        return (*skips, *(Skip(file, None, reason, count) for file, reason, count in _beyond(self._skips)))

    @property
    def skipped_counts(self) -> Mapping[str, int]:
        """Rows left out, by reason."""
        totals: dict[str, int] = {}
        for (_, reason), count in self._skips.counts.items():
            totals[reason] = totals.get(reason, 0) + count
        return totals

    @property
    def warnings(self) -> tuple[Mapping[str, Json], ...]:
        """{reason, file, line, ...} of rows that were kept; {reason, file, line: null, count} for the rest."""
        located = [
            {"reason": reason, "file": file, "line": fault.line, **fault.detail}
            for (file, reason), faults in self._warnings.first.items()
            for fault in faults
        ]
        rest = [
            {"reason": reason, "file": file, "line": None, "count": count}
            for file, reason, count in _beyond(self._warnings)
        ]
        return (*located, *rest, *self._clock_warnings())

    def _clock_warnings(self) -> list[dict[str, Json]]:
        found: list[dict[str, Json]] = []
        for summary in self.files:
            file, times = summary.plan.file, summary.times
            if times.get("iso_without_zone"):
                count = times["iso_without_zone"]
                found.append({"reason": "time_without_zone", "file": file, "read_as": "UTC", "count": count})
            if times.get("relative") and set(times) - {"relative", "impossible"}:
                found.append({"reason": "mixed_clocks", "file": file, **times})
            if summary.missing_times:
                found.append({"reason": "missing_time", "file": file, "count": summary.missing_times})
        clocks = {summary.clock for summary in self.files} - {"unknown"}
        if len(clocks) > 1:
            found.append({"reason": "mixed_clocks_between_files"})
        return found

    @property
    def blank_lines(self) -> int:
        """Blank lines in all files."""
        return sum(summary.blank_lines for summary in self.files)

    @property
    def located_blank_lines(self) -> tuple[tuple[str, int], ...]:
        """(file, line) of the first blank lines."""
        return tuple(self._blank_lines)

    @property
    def missing_times(self) -> int:
        """Requests without a time."""
        return sum(summary.missing_times for summary in self.files)

    @property
    def time_is_relative(self) -> bool:
        """Whether the times read count from the start of the log, not from 1970."""
        clocks = {summary.clock for summary in self.files}
        return "relative" in clocks and "absolute" not in clocks

    @property
    def formats(self) -> Mapping[str, str]:
        """The format chosen for each file."""
        return {summary.plan.file: summary.plan.format for summary in self.files}


def _beyond(located: _Located) -> list[tuple[str, str, int]]:
    return [(file, reason, count - LOCATED) for (file, reason), count in located.counts.items() if count > LOCATED]
