"""Which files a command line names, and how each is opened.

    LOG... = files, globs (sorted), `-` for stdin (once), FORMAT:path (a forced format)

`FORMAT:` counts only when FORMAT is a registered name of two letters or more and no file of that literal name exists;
`./NAME:x` forces a file and `C:\\x` is a path.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from prefixscope.errors import InputError

__all__ = ["STDIN", "LogFile", "expand", "is_index", "raw_chunks"]

STDIN = "-"
CHUNK_BYTES = 1 << 18
_PREFIX = re.compile(r"([A-Za-z][A-Za-z0-9_.-]+):(.+)", re.DOTALL)
_PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log to read: the path as the user named it (`-` is stdin) and the forced format, if any."""

    path: str
    format: str | None = None


def split_format(argument: str, names: Collection[str]) -> LogFile:
    """Takes a `FORMAT:` prefix off an argument, by the path grammar.

    >>> split_format("native:a.jsonl", {"native"})
    LogFile(path='a.jsonl', format='native')
    >>> split_format("./native:a.jsonl", {"native"}).path
    './native:a.jsonl'
    """
    match = _PREFIX.fullmatch(argument)
    if match is None or match[1] not in names or os.path.lexists(argument):
        return LogFile(argument)
    return LogFile(match[2], match[1])


def expand(arguments: Sequence[str], names: Collection[str]) -> tuple[LogFile, ...]:
    """Every file the arguments name, in order: globs sorted, stdin at most once.

    Raises InputError for a pattern that matches no file, an impossible name and stdin named twice. Whether a file can
    be read shows when it is opened.
    """
    files: list[LogFile] = []
    for argument in arguments:
        if "\0" in argument:
            raise InputError(f"{argument!r} can't be the name of a file: it holds a NUL character")
        named = split_format(argument, names)
        files.extend(LogFile(path, named.format) for path in _paths(named.path))
    if sum(file.path == STDIN for file in files) > 1:
        raise InputError("stdin (-) can be read only once")
    return tuple(files)


def _paths(path: str) -> list[str]:
    if path == STDIN or os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    found = sorted(match for match in glob.glob(path, recursive=True) if not os.path.isdir(match))
    if not found:
        raise InputError(f"the pattern {path} matches no file")
    return found


def is_index(path: str) -> bool:
    """Whether the file is Parquet, the form of a prefixscope index (a file that can't be opened is not)."""
    if path == STDIN:
        return False
    try:
        with open(path, "rb") as file:
            return file.read(4) == _PARQUET_MAGIC
    except (OSError, ValueError):
        return False


def raw_chunks(path: str) -> Iterator[bytes]:
    """The bytes of a file as they lie on disk. Raises InputError with one sentence when it can't be read."""
    if path == STDIN:
        if sys.stdin is None:
            raise InputError("standard input is closed", file=path)
        yield from _read_all(sys.stdin.buffer, path)
        return
    if os.path.isdir(path):
        raise InputError(f"is a directory; name its files, for example {os.path.join(path, '*.jsonl')}", file=path)
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below; only opening may fail here
    except FileNotFoundError:
        raise InputError(_missing(path)) from None
    except (OSError, ValueError) as error:
        raise InputError(f"can't be opened: {_why(error)}", file=path) from None
    with file:
        yield from _read_all(file, path)


def _read_all(file: BinaryIO, path: str) -> Iterator[bytes]:
    while True:
        try:
            chunk = file.read(CHUNK_BYTES)
        except OSError as error:
            raise InputError(f"can't be read: {_why(error)}", file=path) from None
        if not chunk:
            return
        yield chunk


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _missing(path: str) -> str:
    if "://" in path:
        return f"{path}: only local files are read; copy it here first or pipe it in as -"
    match = _PREFIX.fullmatch(path)
    if match is not None and os.path.exists(match[2]):
        return f"{path}: there is no such file, and {match[1]!r} is no log format (see `prefixscope formats`)"
    return f"{path}: there is no such file"
