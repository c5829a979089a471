"""Block-hash ids of any width as dense uint32 symbols."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from prefixscope.models.template import Unrenderable

__all__ = ["HashRemap"]


class HashRemap:
    """Numbers hash ids in order of first appearance. One per run; ids scoped to a session stay apart by namespace.

    >>> remap = HashRemap()
    >>> remap.tokens([2**80, 7, 2**80]).hex()
    '000000000100000000000000'
    """

    def __init__(self) -> None:
        self._numbers: dict[int | str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def tokens(self, hash_ids: Iterable[object]) -> bytes:
        """Little-endian uint32 symbols. Ids are whole numbers or texts; anything else is Unrenderable."""
        numbers = self._numbers
        symbols = array("I")
        for hash_id in hash_ids:
            if isinstance(hash_id, bool) or not isinstance(hash_id, (int, str)):
                raise Unrenderable("bad_hash_ids", f"a hash id is neither a whole number nor a text: {hash_id!r:.60}")
            symbols.append(numbers.setdefault(hash_id, len(numbers)))
        return _little_endian(symbols)


def _little_endian(symbols: array[int]) -> bytes:
    import sys

    assert symbols.itemsize == 4
    if sys.byteorder == "big":
        symbols.byteswap()
    return symbols.tobytes()
