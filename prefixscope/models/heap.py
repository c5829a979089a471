"""Memory that foreign code has freed and the C library keeps."""

from __future__ import annotations

import contextlib
import sys

__all__ = ["give_back_freed_memory"]


def give_back_freed_memory() -> None:
    """Returns freed memory to the system where the C library can (glibc); building a fast tokenizer frees 100 MB."""
    if sys.platform.startswith("linux"):
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
