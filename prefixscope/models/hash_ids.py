"""Block-hash ids of any width as dense uint32 symbols."""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Sequence

from prefixscope.models.template import Unrenderable

__all__ = ["HashRemap"]

_KINDS = frozenset((int, str))


class HashRemap:
    """Numbers hash ids in order of first appearance. One per run; ids scoped to a session stay apart by namespace.

    >>> remap = HashRemap()
    >>> remap.tokens([2**80, 7, 2**80]).hex()
    '000000000100000000000000'
    """

    def __init__(self) -> None:
        self._numbers: defaultdict[object, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__  # a new id gets the next number

    def __len__(self) -> int:
        return len(self._numbers)

    def tokens(self, hash_ids: Sequence[object]) -> bytes:
        """Little-endian uint32 symbols. Ids are whole numbers or texts; anything else is Unrenderable."""
        if not _KINDS.issuperset(map(type, hash_ids)):
            wrong = next(hash_id for hash_id in hash_ids if type(hash_id) not in _KINDS)
            raise Unrenderable("bad_hash_ids", f"a hash id is neither a whole number nor a text: {wrong!r:.60}")
        return _little_endian(array("I", map(self._numbers.__getitem__, hash_ids)))


def _little_endian(symbols: array[int]) -> bytes:
    assert symbols.itemsize == 4
    if sys.byteorder == "big":
        symbols.byteswap()
    return symbols.tobytes()
