"""Turns a plain integer function into machine code, with its cache in the user's cache folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prefixscope.user_cache import cache_folder

__all__ = ["COMPILE_FROM_REQUESTS", "compiled"]

COMPILE_FROM_REQUESTS = 100_000
"""Below this many requests the plain Python source runs as it is: starting the compiler would cost more."""

_COMPILED: dict[Callable[..., Any], Callable[..., Any]] = {}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function compiled by numba, which is imported here and not before."""
    if function not in _COMPILED:
        import numba

        folder = cache_folder()
        if not numba.config.CACHE_DIR and folder is not None:
            numba.config.CACHE_DIR = str(folder / "numba")
        options = {"error_model": "numpy"}
        try:
            _COMPILED[function] = numba.njit(cache=bool(numba.config.CACHE_DIR), **options)(function)
        except (RuntimeError, OSError):
            # numba looks for a writable folder when it decorates; where there is none, every process compiles anew.
            _COMPILED[function] = numba.njit(**options)(function)
    return _COMPILED[function]
