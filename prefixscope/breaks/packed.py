"""A table from 64-bit keys to small numbers, for millions of entries: a dict for those used lately, packed arrays for
the others, which take a fifth of its room.
"""

from __future__ import annotations

from array import array

__all__ = ["PackedTable"]

_LATELY = 1 << 16
_ODD = 0x9E3779B97F4A7C15


class PackedTable:
    """Nothing is forgotten. Keys are from 0 to 2**64 - 2, values from 0 to 2**31 - 1.

    `recent` holds some of the entries, for who looks up many of them: what is not there may be in the table.

    >>> table = PackedTable()
    >>> table.put(7, 1)
    >>> table.get(7), table.get(8), table.recent.get(7)
    (1, None, 1)
    """

    __slots__ = ("_count", "_keys", "_mask", "_old", "_room", "_values", "recent")

    def __init__(self, lately: int = _LATELY) -> None:
        self._room = lately
        self.recent: dict[int, int] = {}
        self._old: dict[int, int] = {}
        self._mask = 0
        self._count = 0
        self._keys = array("Q")  # key + 1; 0 is a free place
        self._values = array("i")

    def get(self, key: int) -> int | None:
        """The value of a key."""
        value = self.recent.get(key)
        if value is None:
            value = self._old.pop(key, None)
            if value is None and self._count:
                value = self._packed(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: int, value: int) -> None:
        """Sets the value of a key that has none."""
        self.recent[key] = value
        if len(self.recent) >= self._room:
            old, self._old, self.recent = self._old, self.recent, {}
            self._pack(old)

    def _packed(self, key: int) -> int | None:
        keys, mask = self._keys, self._mask
        key += 1
        at = (key * _ODD >> 32) & mask
        while True:
            found = keys[at]
            if found == key:
                return self._values[at]
            if not found:
                return None
            at = (at + 1) & mask

    def _pack(self, items: dict[int, int]) -> None:
        """Entries that are packed already stay as they are."""
        while 2 * (self._count + len(items)) > self._mask:
            self._widen()
        for key, value in items.items():
            self._insert(key + 1, value)

    def _insert(self, key: int, value: int) -> None:
        keys, mask = self._keys, self._mask
        at = (key * _ODD >> 32) & mask
        while keys[at]:
            if keys[at] == key:
                return
            at = (at + 1) & mask
        keys[at] = key
        self._values[at] = value
        self._count += 1

    def _widen(self) -> None:
        keys, values = self._keys, self._values
        room = max(2 * len(keys), 1024)
        self._mask, self._count = room - 1, 0
        self._keys, self._values = array("Q", bytes(8 * room)), array("i", bytes(4 * room))
        for key, value in zip(keys, values, strict=True):
            if key:
                self._insert(key, value)
