"""A limit on the CPU time of foreign code that runs in this process (a chat template)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["DeadlineExceeded", "cpu_deadline"]


class DeadlineExceeded(Exception):  # noqa: N818 - reads as what happened
    """The code inside took more CPU time than it was given."""


@contextmanager
def cpu_deadline(seconds: float) -> Iterator[None]:
    """Raises DeadlineExceeded inside the block after `seconds` of this process's own CPU time.

    CPU time and not wall time: a busy machine must not change a result. Works in the main thread of systems with
    interval timers; elsewhere the block runs without a limit. One long operation in C is only stopped at its end, and
    memory is not limited.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise DeadlineExceeded(f"took more than {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
