"""A table that forgets what was not asked for in a long time, so that memory does not grow with the log."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Lately"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Lately(Generic[_Key, _Value]):
    """At least the `room` entries written or read last, at most twice as many.

    Entries are in two halves; one that is read in the old half moves to the young one, and when that is full the old
    half is forgotten. `recent` is the young half, for who looks up many keys: what is not there may be in the other.

    >>> table = Lately(2)
    >>> for number in range(5):
    ...     table.put(number, str(number))
    ...     _ = table.get(0)
    >>> table.get(0), table.get(1), table.get(4)
    ('0', None, '4')
    """

    __slots__ = ("_old", "_room", "recent")

    def __init__(self, room: int) -> None:
        self._room = room
        self.recent: dict[_Key, _Value] = {}
        self._old: dict[_Key, _Value] = {}

    def __len__(self) -> int:
        return len(self.recent) + len(self._old)

    def get(self, key: _Key) -> _Value | None:
        """The value of a key; None where it is not known or no longer."""
        value = self.recent.get(key)
        if value is None and self._old:
            value = self._old.pop(key, None)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: _Key, value: _Value) -> None:
        """Sets a value, which must not be None."""
        young = self.recent
        young[key] = value
        if len(young) >= self._room:
            self._old, self.recent = young, {}
