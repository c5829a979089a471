"""A limit on the CPU time of foreign code that runs in this process (a chat template)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

__all__ = ["DeadlineExceeded", "cpu_deadline", "standing_timer"]

_TICKS = 5
"""So often a standing timer finds the same block at work before it ends it; it ticks four times in a limit."""


class DeadlineExceeded(Exception):  # noqa: N818 - reads as what happened
    """The code inside took more CPU time than it was given."""


class cpu_deadline:  # noqa: N801 - reads as a statement: with cpu_deadline(10): ...
    """Raises DeadlineExceeded inside the block after `seconds` of this process's own CPU time.

    CPU time and not wall time: a busy machine must not change a result. Works in the main thread of systems with
    interval timers; elsewhere the block runs without a limit. One long operation in C is only stopped at its end, and
    memory is not limited. The handler of SIGVTALRM is set once and stays: setting it takes longer than many a template.
    """

    __slots__ = ("_is_set", "_seconds", "ticks")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_set = False
        self.ticks = 0

    def __enter__(self) -> None:
        global _running, _limit, _period
        if not _can_be_set():
            return
        self._is_set = True
        _running = self
        if not _stands or self._seconds != _limit or not _period:
            _install()
            _limit = self._seconds
            _period = _limit / (_TICKS - 1) if _stands else 0.0
            signal.setitimer(signal.ITIMER_VIRTUAL, _period or _limit, _period)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _running
        if self._is_set:
            _running = None
            if not _stands:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@contextmanager
def standing_timer() -> Iterator[None]:
    """Inside, one timer serves all blocks of cpu_deadline: setting one anew takes as long as rendering a message.

    It ticks on, so a block is ended after its limit and a quarter more at most, never before.
    """
    global _stands, _period
    before, _stands = _stands, _stands or _can_be_set()
    try:
        yield
    finally:
        if before != _stands:
            _stands = before
            _period = 0.0
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)  # also where it was never set


_running: cpu_deadline | None = None
_limit = 0.0
_period = 0.0
_stands = False
_is_installed = False


def _can_be_set() -> bool:
    return threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")


def _install() -> None:
    global _is_installed
    if not _is_installed:
        signal.signal(signal.SIGVTALRM, _tick)
        _is_installed = True


def _tick(number: int, frame: FrameType | None) -> None:
    if _running is None:
        return
    _running.ticks += 1
    if not _period or _running.ticks >= _TICKS:
        raise DeadlineExceeded(f"took more than {_limit:g} s of CPU time")
