"""Reading a log with several processes: batches of lines go out, parcels come back and are taken in file order.

Workers parse, render and encode; numbering, the tree and the account stay here, so that the result is the same as with
one process. At most two batches are under way to each worker. A worker is a fresh interpreter in a session of its own:
Ctrl-C reaches the parent alone, which ends its workers whatever happens to it; a worker whose parent is gone ends
itself (see worker_process.py).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prefixscope.errors import PrefixscopeError, WorkerError
from prefixscope.ingest.parcel import Job, PackedRow, Parcel, parsed_batch
from prefixscope.ingest.run import Run
from prefixscope.ingest.settings import IngestOptions
from prefixscope.logs import LogFile, LogReading, OpenLog
from prefixscope.logs.detect import FilePlan
from prefixscope.logs.hash_columns import HashColumns
from prefixscope.logs.lines import LineBatch
from prefixscope.logs.source import STDIN
from prefixscope.models.encode import EncoderDisagreement
from prefixscope.records import LoggedRequest

__all__ = ["log_bytes", "read_with_workers", "worker_count"]

SMALLEST_FOR_WORKERS = 128 << 20
"""Bytes of log from which the seconds that every worker needs to start are worth it."""
MOST_WORKERS = 8
IN_FLIGHT = 2
LAST = -1
"""The number of a job without lines that ends every file, so that one without any batch is accounted for, too."""
_EXPANSION = 6
"""How much longer a compressed log usually is than its file."""
_START = "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); " \
         "from prefixscope.ingest.worker_process import serve; serve()"  # fmt: skip


def worker_count(files: Sequence[LogFile], options: IngestOptions) -> int:
    """How many processes read: as asked, else one for small logs and one per core for large ones."""
    if not sys.executable:
        return 1
    if options.workers is not None:
        return options.workers
    if options.read.limit is not None or any(file.path == STDIN for file in files):
        return 1
    size = log_bytes(files)
    return 1 if size < SMALLEST_FOR_WORKERS else min(_cores(), MOST_WORKERS)


def log_bytes(files: Sequence[LogFile]) -> int:
    """How long the logs are, uncompressed; an estimate for compressed ones, 0 for what has no length."""
    return sum(_log_bytes(file.path) for file in files)


def _log_bytes(path: str) -> int:
    with contextlib.suppress(OSError):
        return os.stat(path).st_size * (_EXPANSION if path.endswith((".gz", ".zst")) else 1)
    return 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_with_workers(
    count: int, reading: LogReading, run: Run, salt_key: bytes, progress: Callable[[int], None]
) -> None:
    """Reads all files of `reading` into `run`. Raises what reading alone raises, and WorkerError."""
    with _Crew(count, run, salt_key) as crew:
        plan: FilePlan | None = None
        for job in _finished(crew, reading):
            if job.plan is not plan:
                plan, summary = job.plan, reading.begin(job.plan)
            if job.number == LAST:
                continue
            parcel = crew.result(job.number)
            records = reading.take(parsed_batch(parcel, job.plan.file), summary)
            _take(run, records, parcel)
            progress(reading.ledger.requests_read)
            if _is_full(reading):
                return


def _is_full(reading: LogReading) -> bool:
    return reading.options.limit is not None and reading.ledger.requests_read >= reading.options.limit


def _finished(crew: _Crew, reading: LogReading) -> Iterator[Job]:
    """Every batch of every file, in order, each when it is its turn to be taken; some later ones are on their way."""
    sent: deque[Job] = deque()
    failure: PrefixscopeError | None = None
    try:
        for file in reading.files:
            log = OpenLog(file, reading.options)
            for batch in log.batches():
                while crew.is_busy:
                    yield sent.popleft()
                sent.append(crew.send(log.plan, batch))
            sent.append(Job(LAST, log.plan, LineBatch(b"", 1)))
    except PrefixscopeError as error:
        failure = error  # told when all in front of it was taken
    yield from sent
    if failure is not None:
        raise failure


def _take(run: Run, records: Sequence[LoggedRequest | HashColumns], parcel: Parcel) -> None:
    if parcel.dropped:
        # what other processes encoded of this model was not all compared: everything is made again
        location, source = next(iter(parcel.dropped.items()))
        disagreement = EncoderDisagreement("the fast tokenizer and its reference differ")
        disagreement.location, disagreement.source = location, source
        raise disagreement
    run.encoders.update({base: name for base, name in parcel.encoders.items() if name != "tokenizers"})
    for base, name in parcel.encoders.items():
        run.encoders.setdefault(base, name)
    run.loaded.update(parcel.loaded)
    place = 0
    for request, row in zip(records, parcel.rows, strict=False):  # fewer records where the limit was reached
        if isinstance(request, HashColumns):
            run.take_columns(request)
        elif not isinstance(row, PackedRow):
            run.take(request, run.maker.make(request))
        elif row.refused is not None:
            run.refuse(request, row.refused)
        else:
            assert row.facts is not None
            tokens = parcel.ids[place : place + row.bytes]
            place += row.bytes
            run.take_row(request, row.notes, row.facts, parcel.identities[row.identity], tokens, row.pieces)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a worker's reader found: a parcel, a failure (an exception to be raised here), or the end of the worker."""

    worker: _Worker
    kind: Literal["parcel", "failure", "end"]
    number: int = -1
    content: Any = None


class _Worker:
    """One process and the thread that listens to it."""

    def __init__(self, greeting: Sequence[object], answers: queue.SimpleQueue[_Answer]) -> None:
        self.jobs: deque[Job] = deque()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **_in_its_own_session()
        )
        self._answers = answers
        self._listener = threading.Thread(target=self._listen, name="listen to a worker", daemon=True)
        self._listener.start()
        self.send(sys.path)
        self.send(greeting)

    def send(self, message: object) -> None:
        """A broken pipe is not told here: the listener tells the worker's end."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(message, self.process.stdin, protocol=5)
            self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while True:
            try:
                kind, number, content = pickle.load(self.process.stdout)
            except Exception:  # half a message fails in many ways
                self._answers.put(_Answer(self, "end"))
                return
            self._answers.put(_Answer(self, kind, number, content))

    def end(self) -> None:
        """Ends the process at once. It holds nothing that would have to be saved."""
        self.process.kill()
        self.process.wait()
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def _in_its_own_session() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


class _Crew:
    """Some workers; a context in which they live."""

    def __init__(self, count: int, run: Run, salt_key: bytes) -> None:
        self._greeting = (run.options, salt_key, frozenset(run.distrusted), run.maker.rules.build_encoder)
        self._count = count
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._parcels: dict[int, _Answer] = {}
        self._sent = 0

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    @property
    def is_busy(self) -> bool:
        """Whether every worker has as many batches as it may have."""
        return len(self._workers) == self._count and all(len(worker.jobs) >= IN_FLIGHT for worker in self._workers)

    def send(self, plan: Any, batch: Any) -> Job:
        """Gives a batch to the worker with the least to do; only called while the crew is not busy."""
        job = Job(self._sent, plan, batch)
        self._sent += 1
        if len(self._workers) < self._count and all(worker.jobs for worker in self._workers):
            self._workers.append(_Worker(self._greeting, self._answers))
        worker = min(self._workers, key=lambda worker: len(worker.jobs))
        worker.jobs.append(job)
        worker.send(job)
        return job

    def result(self, number: int) -> Parcel:
        """The parcel of a batch, once it is there. Raises what went wrong in its worker, or WorkerError."""
        while number not in self._parcels:
            answer = self._answers.get()
            if answer.kind == "end":
                raise _death(answer.worker)
            answer.worker.jobs.popleft()
            self._parcels[answer.number] = answer
        answer = self._parcels.pop(number)
        if answer.kind == "failure":
            raise answer.content
        parcel: Parcel = answer.content
        return parcel


def _death(worker: _Worker) -> PrefixscopeError:
    code = worker.process.wait()
    how = f"ended with exit code {code}"
    if code < 0:
        with contextlib.suppress(ValueError):
            how = f"was killed by {signal.Signals(-code).name}"
    if code in (-9, 137):
        how += " (perhaps for want of memory)"
    where = worker.jobs[0].place if worker.jobs else "no lines"
    return WorkerError(f"a worker process {how} while it read {where}; --workers 1 reads in one process")
