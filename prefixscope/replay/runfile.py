"""The run file: JSON lines, one per call, forced to disk as they come, so that nothing measured is ever lost.

The first line names what was asked for; a later run with other settings or another sample refuses the file. A phase
that ended is not run again. A phase that was cut off starts again from a cold cache, because nobody knows what the
endpoint still remembers; only phases whose calls are independent of each other go on where they stopped.
The file holds generated tokens (answers are compared by them), neither prompts nor keys; only its owner can read it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from prefixscope.errors import FormatError, InputError, OptionError
from prefixscope.replay.connection import Outcome
from prefixscope.replay.measurement import Reading

__all__ = ["CallRecord", "PhaseRecord", "PromptCheck", "RunFile"]

SCHEMA = "prefixscope.replay-run/1"


@dataclass(frozen=True, slots=True)
class PromptCheck:
    """Our prompt against the endpoint's: equal, or the first position that differs with both ids (None: no token)."""

    equal: bool
    position: int | None = None
    ours: int | None = None
    theirs: int | None = None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call that ended. `row` is the log's row; `due_s` when it was to be sent (None: when the one before ended).

    `prompt_check`: where the endpoint's prompt differs from ours, if it told its ids (see `compare.check_prompt`).
    """

    phase: str
    row: int
    model: str
    prompt_tokens: int
    due_s: float | None
    outcome: Outcome
    prompt_check: PromptCheck | None = None


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """What is known of a phase besides its calls; `predicted` has one number (or None) per call, in the same order."""

    phase: str
    predicted: tuple[int | None, ...]
    cache: str
    order: str
    why_unknown: str
    loop_lag_s: float
    duration_s: float
    counter_prompt_tokens: int | None
    counter_cached_tokens: int | None
    expected_counter_prompt_tokens: int | None
    measured_cached_with_controls: int | None
    finished: bool


class RunFile:
    """Appends records; `path` None keeps them in memory only."""

    def __init__(self, path: str | None, settings: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = path
        self.calls: dict[str, list[CallRecord]] = {}
        self.phases: dict[str, PhaseRecord] = {}
        self._file: TextIO | None = None
        self._lock = threading.Lock()
        if path is None:
            return
        there = Path(path).exists()
        if there and not resume:
            raise OptionError(f"--run-file {path}: exists; --resume goes on with it")
        if there:
            self._load(path, settings)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(descriptor, "a", encoding="utf-8")
        if not there:
            self._write({"schema": SCHEMA, "settings": dict(settings)})

    def add_call(self, record: CallRecord) -> None:
        """Keeps a call; `sync` then forces it to disk."""
        self.calls.setdefault(record.phase, []).append(record)
        self._write({"call": dataclasses.asdict(record)})

    def add_phase(self, record: PhaseRecord) -> None:
        """Keeps a phase's record; its calls count from now on if it finished."""
        self.phases[record.phase] = record
        self._write({"phase": dataclasses.asdict(record)})
        self.sync()

    def begin(self, phases: Iterable[str]) -> None:
        """Forgets the calls of phases that start again; in the file, a mark says so."""
        for phase in phases:
            calls, record = self.calls.pop(phase, None), self.phases.pop(phase, None)
            if calls is not None or record is not None:
                self._write({"begin": phase})

    def sync(self) -> None:
        """Returns when everything kept so far is on disk. May be called from another thread."""
        with self._lock:
            if self._file is not None and not self._file.closed:
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Forces the rest to disk and closes the file."""
        self.sync()
        with self._lock:
            if self._file is not None:
                self._file.close()

    def _write(self, record: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
        self._file.flush()

    def _load(self, path: str, settings: Mapping[str, Any]) -> None:
        try:
            lines = Path(path).read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"can't be read ({error})", file=path) from error
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                record = json.loads(line)
                if number == 1:
                    _check(record, settings, path)
                else:
                    self._take(record)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                if number == len(lines):  # only the last line can be half-written: every other ends in a line break
                    _cut_last_line(path, line)
                    break
                raise FormatError("not a line of a replay run file", file=path, line=number) from error

    def _take(self, record: Mapping[str, Any]) -> None:
        if "call" in record:
            call = _call_of(record["call"])
            self.calls.setdefault(call.phase, []).append(call)
        elif "phase" in record:
            values = {**record["phase"], "predicted": tuple(record["phase"]["predicted"])}
            self.phases[values["phase"]] = PhaseRecord(**values)
        else:
            self.calls.pop(record["begin"], None)
            self.phases.pop(record["begin"], None)


def _check(head: Mapping[str, Any], settings: Mapping[str, Any], path: str) -> None:
    if head["schema"] != SCHEMA:
        raise FormatError(f"schema {head['schema']!r}, this version reads {SCHEMA}", file=path, line=1)
    before = head["settings"]
    for name, value in settings.items():
        if before.get(name) != json.loads(json.dumps(value)):
            raise OptionError(f"--resume {path}: that run had {name} = {before.get(name)}, this one has {value}")


def _cut_last_line(path: str, line: str) -> None:
    """A run that was killed while writing leaves half a line: it goes, so that the next one starts clean."""
    with open(path, "rb+") as file:
        file.truncate(os.path.getsize(path) - len(line.encode("utf-8")))


def _call_of(values: Mapping[str, Any]) -> CallRecord:
    outcome = dict(values["outcome"])
    reading = dict(outcome["reading"])
    for name in ("output_ids", "logprobs", "runner_up"):
        reading[name] = None if reading[name] is None else tuple(reading[name])
    check = values["prompt_check"]
    outcome["reading"] = Reading(**reading)
    outcome["token_s"] = tuple((at, count) for at, count in outcome["token_s"])
    return CallRecord(
        **{**values, "outcome": Outcome(**outcome), "prompt_check": None if check is None else PromptCheck(**check)}
    )
