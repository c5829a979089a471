"""Block-hash ids as dense numbers, many at once or one prompt after another; both ways give an id the same number."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from prefixscope.models.hash_ids import HashRemap

__all__ = ["HashNumbers"]

_KINDS = frozenset((int, str))
_TABLE_END = 1 << 24
"""Ids below are numbered in a table of 4 bytes an id, all others in a dict of about 100."""


class HashNumbers(HashRemap):
    """As HashRemap, and takes arrays of ids as well.

    >>> numbers = HashNumbers()
    >>> numbers.tokens([7, 2**80]).hex(), numbers.of(np.array([9, 7, 9, 2**63], np.uint64)).tolist()
    ('0000000001000000', [2, 0, 2, 3])
    """

    def __init__(self) -> None:
        super().__init__()
        self._table: npt.NDArray[np.uint32] | None = None  # one more than the number of each small id, 0 for none
        self._given = 0

    def __len__(self) -> int:
        return len(self._numbers) if self._table is None else self._given

    def tokens(self, hash_ids: Sequence[object]) -> bytes:
        """Little-endian uint32 symbols. Ids are whole numbers or texts; anything else is Unrenderable."""
        if self._table is None or not _KINDS.issuperset(map(type, hash_ids)):
            return super().tokens(hash_ids)
        try:
            ids = np.array(array("Q", hash_ids), np.uint64)  # type: ignore[type-var]
        except (TypeError, OverflowError):
            numbers = np.array([self._number(hash_id) for hash_id in hash_ids], np.uint32)
        else:
            numbers = self.of(ids)
        return numbers.astype("<u4").tobytes()

    def of(self, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """The numbers of these ids; new ids get the next ones, small ids first, in the order of their appearance."""
        if self._table is None:
            self._begin_table()
        large = ids >= _TABLE_END
        if not large.any():
            return self._of_small(ids)
        numbers = np.empty(len(ids), np.uint32)
        numbers[~large] = self._of_small(ids[~large])
        unique, places = np.unique(ids[large], return_inverse=True)
        numbers[large] = np.array(self._of_large(unique.tolist()), np.uint32)[places]
        return numbers

    def _begin_table(self) -> None:
        """From now on the dict holds large ids and texts only."""
        earlier, self._numbers = self._numbers, defaultdict()
        self._given = len(earlier)
        self._table = np.zeros(1 << 16, np.uint32)
        for hash_id, number in earlier.items():
            if _is_small(hash_id):
                self._reserve(hash_id)[hash_id] = number + 1
            else:
                self._numbers[hash_id] = number

    def _of_small(self, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        if not len(ids):
            return np.empty(0, np.uint32)
        table = self._reserve(int(ids.max()))
        found = table[ids]
        unknown = np.flatnonzero(found == 0)
        if len(unknown):
            new = ids[unknown]
            places = np.arange(1, len(new) + 1, dtype=np.uint32)
            # of several values for one id numpy keeps the last: going backwards, that of its first appearance
            table[new[::-1]] = places[::-1]
            first = new[table[new] == places]
            table[first] = np.arange(self._given + 1, self._given + 1 + len(first), dtype=np.uint32)
            self._given += len(first)
            found[unknown] = table[new]
        return found - np.uint32(1)

    def _of_large(self, ids: list[object]) -> list[int]:
        before = len(self._numbers)
        self._numbers.default_factory = count(self._given).__next__
        numbers = list(map(self._numbers.__getitem__, ids))
        self._given += len(self._numbers) - before
        return numbers

    def _number(self, hash_id: object) -> int:
        if _is_small(hash_id):
            return int(self._of_small(np.array([hash_id], np.uint64))[0])
        return self._of_large([hash_id])[0]

    def _reserve(self, hash_id: int) -> npt.NDArray[np.uint32]:
        """The table, with room for this id."""
        assert self._table is not None
        if hash_id >= len(self._table):
            larger = np.zeros(max(hash_id + 1, min(2 * len(self._table), _TABLE_END)), np.uint32)
            larger[: len(self._table)] = self._table
            self._table = larger
        return self._table


def _is_small(hash_id: object) -> TypeGuard[int]:
    return isinstance(hash_id, int) and 0 <= hash_id < _TABLE_END
