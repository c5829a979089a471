"""gzip and zstd, told by their first bytes and unpacked with bounded memory.

Several gzip members or zstd frames in one file are read one after another, as `zcat` and `zstdcat` do.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

__all__ = ["BrokenStreamError", "decompressed"]

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_FRAME = b"\x2a\x4d\x18"  # after a byte 0x50..0x5F; seekable zstd files may start with one
_PIECE_BYTES = 1 << 12  # what zstd is fed at once: a hostile frame blows it up at most 32,768-fold
_OUTPUT_BYTES = 1 << 20
_LARGEST_WINDOW = 1 << 31


class BrokenStreamError(Exception):
    """The compressed data ends early or is damaged; `reason` is `truncated_gzip`, `corrupt_zstd` and so on."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decompressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The plain bytes of a stream that may be compressed.

    Raises BrokenStreamError after everything readable was given.
    """
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= 4:
            break
    whole = _with_head(head, chunks)
    if head[:2] == _GZIP_MAGIC:
        return _gunzip(whole)
    if head[:4] == _ZSTD_MAGIC or (head[1:4] == _SKIPPABLE_FRAME and 0x50 <= head[0] <= 0x5F):
        return _unzstd(whole)
    return whole


def _with_head(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from rest


def _gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    member = zlib.decompressobj(31)
    inside = False
    for chunk in chunks:
        data = chunk
        while data:
            if not inside:
                data = data.lstrip(b"\0")  # padding between members, as tar and tapes leave it
                if not data:
                    break
                member, inside = zlib.decompressobj(31), True
            before = member.copy()
            try:
                plain = member.decompress(data, _OUTPUT_BYTES)
            except zlib.error:
                yield from _until_the_fault(before, data)
                raise BrokenStreamError("corrupt_gzip") from None
            if plain:
                yield plain
            data = member.unused_data if member.eof else member.unconsumed_tail
            inside = not member.eof
    while inside:
        # Input may be used up while the window still holds output.
        try:
            plain = member.decompress(b"", _OUTPUT_BYTES)
        except zlib.error:
            plain = b""
        if plain:
            yield plain
        elif not member.eof:
            raise BrokenStreamError("truncated_gzip")
        inside = not member.eof


def _until_the_fault(member: Any, data: bytes) -> Iterator[bytes]:
    """What a failing call would have given. It throws its output away, so small ones come closer to the fault."""
    for step in (4096, 1):
        while True:
            before = member.copy()
            try:
                plain = member.decompress(data, step)
            except zlib.error:
                member = before
                break
            if not plain:
                return
            yield plain
            data = member.unconsumed_tail


def _unzstd(chunks: Iterator[bytes]) -> Iterator[bytes]:
    import zstandard

    frame = None
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE_BYTES):
            data = chunk[start : start + _PIECE_BYTES]
            while data:
                if frame is None:
                    frame = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompressobj()
                try:
                    plain = frame.decompress(data)
                except (zstandard.ZstdError, MemoryError):
                    raise BrokenStreamError("corrupt_zstd") from None
                if plain:
                    yield plain
                data = b""
                if frame.eof:
                    data, frame = frame.unused_data, None
    if frame is not None:
        raise BrokenStreamError("truncated_zstd")
