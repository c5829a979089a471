"""Files we write: opened before the long work, whole at the end or not there at all, never over someone's file.

A regular target is written under a temporary name in the same folder, fsynced, and renamed at the end. `-`, devices
and pipes are written straight. Every failure is one sentence naming the option and the file.

Ctrl-C can fall between any two instructions, also between the opening of a file and the `with` that would remove it.
So a temporary name is noted before the file exists, and `remove_unfinished`, at the end of the run, takes what is left.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import stat
import sys
from types import TracebackType
from typing import IO, Any, NoReturn

from prefixscope.errors import PrefixscopeError

__all__ = ["OutputFile", "remove_unfinished"]

_STREAM = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES)
_unfinished: set[str] = set()
"""Temporary names of this process that may exist; a name leaves when its file is renamed or removed."""


def remove_unfinished() -> None:
    """Removes temporary files that an interrupt left between their creation and the block that looks after them."""
    while _unfinished:
        _remove(next(iter(_unfinished)))


class OutputFile:
    """A file to be: `with OutputFile(path, option="--json") as handle: handle.write(...)`.

    Entering opens it (so a bad path fails before the work) and gives a binary handle. Leaving in peace makes it appear
    under its name; leaving by an exception, Ctrl-C included, removes every trace. `option` is named in errors.
    `path` is `-` for standard output. An existing file is refused without `force`, at the start and again at the end.
    """

    def __init__(self, path: str, *, option: str, force: bool = False) -> None:
        self.path = path
        self._option = option
        self._force = force
        self._target = path
        self._temporary: str | None = None
        self._handle: IO[bytes] | None = None

    @property
    def is_stdout(self) -> bool:
        """Whether this is standard output, by one of its names."""
        return self.path in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")

    def __enter__(self) -> IO[bytes]:
        stream = _STREAM.fullmatch(self.path.replace("/dev/stderr", "/dev/fd/2"))
        if self.is_stdout:
            self._handle = self._stdout_bytes()
        elif stream:
            self._handle = self._open_stream(int(stream[1]))
        elif self._is_straight():
            self._handle = self._open(self.path, os.O_WRONLY)
        else:
            self._handle = self._open_temporary()
        return self._handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        handle = self._handle
        assert handle is not None
        if kind is None:
            try:
                self._finish(handle)
            except BaseException:
                self._discard(handle)
                raise
        else:
            self._discard(handle)

    def _is_straight(self) -> bool:
        """Whether the target is a device or a pipe; refuses folders, and files that exist without force."""
        if not self.path:
            self._fail("the file name is empty")
        try:
            mode = os.stat(self.path).st_mode
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            self._fail(_reason(error), error)
        if stat.S_ISDIR(mode):
            self._fail("is a folder, not a file")
        if stat.S_ISREG(mode) and not self._force:
            self._refuse()
        return not stat.S_ISREG(mode)

    def _open_temporary(self) -> IO[bytes]:
        # The real path, so that a symbolic link keeps pointing and its target gets the new content.
        self._target = os.path.realpath(self.path)
        folder = os.path.dirname(self._target)
        if not os.path.isdir(folder):
            self._fail(f"the folder {folder} does not exist")
        temporary = os.path.join(folder, f".prefixscope-{secrets.token_hex(6)}.tmp")
        self._temporary = temporary
        _unfinished.add(temporary)
        handle = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with contextlib.suppress(OSError):
            os.chmod(temporary, stat.S_IMODE(os.stat(self._target).st_mode))
        return handle

    def _open(self, path: str, flags: int) -> IO[bytes]:
        try:
            descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            self._fail(_reason(error), error)
        return io.BufferedWriter(_ToldFile(descriptor, self), 1 << 20)

    def _open_stream(self, descriptor: int) -> IO[bytes]:
        # Opening /dev/fd/N anew would start at the beginning of a file that the shell has opened for appending.
        try:
            return io.BufferedWriter(_ToldFile(os.dup(descriptor), self), 1 << 20)
        except OSError as error:
            self._fail(_reason(error), error)

    def _stdout_bytes(self) -> IO[bytes]:
        if sys.stdout is None:
            self._fail("standard output is closed")
        sys.stdout.flush()
        return sys.stdout.buffer

    def _finish(self, handle: IO[bytes]) -> None:
        handle.flush()
        if self.is_stdout:
            return
        if self._temporary is not None:
            try:
                os.fsync(handle.fileno())
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                    self._fail(_reason(error), error)
        handle.close()
        if self._temporary is not None:
            self._rename(self._temporary)
            _unfinished.discard(self._temporary)
            self._temporary = None
            _fsync_folder(os.path.dirname(self._target))

    def _rename(self, temporary: str) -> None:
        try:
            if self._force:
                os.replace(temporary, self._target)
            else:
                self._rename_to_new(temporary)
        except FileExistsError as error:
            self._refuse(error)
        except OSError as error:
            self._fail(_reason(error), error)

    def _rename_to_new(self, temporary: str) -> None:
        """Only a hard link refuses an existing name in one step; where there are none, look and then rename."""
        try:
            os.link(temporary, self._target)
        except FileExistsError:
            raise
        except (OSError, AttributeError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(self._target):
                raise FileExistsError(errno.EEXIST, "exists", self._target) from None
            os.replace(temporary, self._target)
        else:
            os.unlink(temporary)

    def _discard(self, handle: IO[bytes]) -> None:
        if self.is_stdout:
            return
        with contextlib.suppress(Exception):
            handle.close()
        if self._temporary is not None:
            _remove(self._temporary)
            self._temporary = None

    def _refuse(self, cause: BaseException | None = None) -> NoReturn:
        self._fail("the file exists; --force overwrites it", cause)

    def _fail(self, reason: str, cause: BaseException | None = None) -> NoReturn:
        raise PrefixscopeError(f"{self._option} {self.path}: {reason}") from cause


class _ToldFile(io.FileIO):
    """A raw file whose write errors are told as sentences; a closed pipe stays a BrokenPipeError."""

    def __init__(self, descriptor: int, owner: OutputFile) -> None:
        super().__init__(descriptor, "wb")
        self._owner = owner

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self._owner._fail(_reason(error), error)


def _remove(temporary: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(temporary)
    _unfinished.discard(temporary)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the disk quota is used up",
            errno.EACCES: "permission denied",
            errno.EROFS: "the file system is read-only",
            errno.ENAMETOOLONG: "the name is too long",
        }.get(error.errno or 0, error.strerror)
    return "the name can't be used on this system" if isinstance(error, ValueError) else str(error)


def _fsync_folder(folder: str) -> None:
    """Makes the rename itself durable; not every system lets a folder be opened for that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
