"""A worker: takes batches of lines from stdin and gives parcels to stdout until nothing comes any more.

A thread takes the batches in, so that whoever sends them never waits; when the parent is gone, which shows as the end
of stdin, it ends the process in the middle of whatever it does.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import sys
import threading
from typing import IO

from prefixscope.errors import PrefixscopeError, WorkerError
from prefixscope.ingest.parcel import Job, Packer
from prefixscope.ingest.settings import prompt_rules
from prefixscope.models.deadline import standing_timer
from prefixscope.models.encode import EncoderDisagreement
from prefixscope.models.prompt import PromptMaker

__all__ = ["serve"]


def serve() -> None:
    """Runs until stdin ends."""
    answers = _own_stdout()
    options, salt_key, distrusted, build = pickle.load(sys.stdin.buffer)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_take_in, args=(jobs,), daemon=True).start()
    rules = prompt_rules(options, fast_encoder=True, salt_key=salt_key, distrusted=distrusted, build_encoder=build)
    packer = Packer(PromptMaker(rules), with_bodies=options.breaks)
    gc.set_threshold(20_000, 20, 100)
    first = True
    with standing_timer():
        while True:
            job = jobs.get()
            pickle.dump(_answer(packer, job), answers, protocol=5)
            answers.flush()
            if first:
                gc.freeze()  # what was loaded stays
                first = False


def _own_stdout() -> IO[bytes]:
    """The pipe to the parent. What anything else in this process prints goes to stderr instead."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _take_in(jobs: queue.SimpleQueue[Job]) -> None:
    try:
        while True:
            jobs.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(0)


def _answer(packer: Packer, job: Job) -> tuple[str, int, object]:
    try:
        return "parcel", job.number, packer.pack(job)
    except (PrefixscopeError, EncoderDisagreement) as error:
        return "failure", job.number, error
    except MemoryError:
        return "failure", job.number, WorkerError(f"out of memory in a worker process at {job.place}")
    except Exception as error:
        message = f"a worker process failed at {job.place}: {type(error).__name__}: {error}"
        return "failure", job.number, WorkerError(message)
