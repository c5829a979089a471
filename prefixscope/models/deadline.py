"""A limit on the CPU time of foreign code that runs in this process (a chat template)."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

__all__ = ["DeadlineExceeded", "cpu_deadline"]


class DeadlineExceeded(Exception):  # noqa: N818 - reads as what happened
    """The code inside took more CPU time than it was given."""


class cpu_deadline:  # noqa: N801 - reads as a statement: with cpu_deadline(10): ...
    """Raises DeadlineExceeded inside the block after `seconds` of this process's own CPU time.

    CPU time and not wall time: a busy machine must not change a result. Works in the main thread of systems with
    interval timers; elsewhere the block runs without a limit. One long operation in C is only stopped at its end, and
    memory is not limited. The handler of SIGVTALRM is set once and stays: setting it takes longer than many a template.
    """

    __slots__ = ("_is_set", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_set = False

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
            return
        global _limit, _is_installed
        if not _is_installed:
            signal.signal(signal.SIGVTALRM, _stop)
            _is_installed = True
        self._is_set = True
        _limit = self._seconds
        signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_set:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


_limit = 0.0
_is_installed = False


def _stop(number: int, frame: FrameType | None) -> None:
    raise DeadlineExceeded(f"took more than {_limit:g} s of CPU time")
