"""Listening to something endless: the first Ctrl-C ends it in peace, the second interrupts."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

__all__ = ["until_interrupted"]


@contextlib.contextmanager
def until_interrupted() -> Iterator[Callable[[], bool]]:
    """Gives a function that tells whether the user has asked to stop; Ctrl-C is listened for from its first call on."""
    asked, listening = False, False
    before = signal.getsignal(signal.SIGINT)

    def stop(*_: object) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, before)

    def has_asked() -> bool:
        nonlocal listening
        if not listening:
            listening = True
            with contextlib.suppress(ValueError):  # not in the main thread: nobody can interrupt it there
                signal.signal(signal.SIGINT, stop)
        return asked

    try:
        yield has_asked
    finally:
        if listening:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGINT, before)
