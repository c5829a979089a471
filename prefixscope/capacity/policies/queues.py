"""Policies built on first-in-first-out queues with a look at each block before it goes.

A queue is a number per block (its place); only blocks that may go wait in a heap by place, the others keep their place
and are passed over. That is what differs from the papers, which know no trees.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import ClassVar

from prefixscope.capacity.policies.base import Policy, PrefixTree
from prefixscope.engines.profile import EngineProfile

__all__ = ["S3Fifo", "Sieve"]


class Queued(Policy):
    """Places in order of storing; entries of a heap that are out of date are passed over."""

    def __init__(self, tree: PrefixTree, profile: EngineProfile) -> None:
        super().__init__(tree, profile)
        self.place: dict[int, int] = {}
        self.places = 0

    def enqueue(self, key: int) -> None:
        """Puts a block at the new end."""
        self.places += 1
        self.place[key] = self.places

    def oldest(self, leaves: list[tuple[int, int]]) -> int | None:
        """The oldest block of this heap that may go, taken out of the heap."""
        while leaves:
            place, key = heapq.heappop(leaves)
            if self.place.get(key) == place and self.tree.may_go(key):
                return key
        return None


class Sieve(Queued):
    """SIEVE (Zhang et al., NSDI 2024): a hand goes from old to new, evicts what was not used since it last passed."""

    name: ClassVar[str] = "sieve"

    def __init__(self, tree: PrefixTree, profile: EngineProfile) -> None:
        super().__init__(tree, profile)
        self.visited: set[int] = set()
        self.hand = 0
        self.ahead: list[tuple[int, int]] = []
        self.behind: list[tuple[int, int]] = []

    def stored(self, key: int) -> None:
        self.enqueue(key)

    def used(self, key: int) -> None:
        self.visited.add(key)

    def free_to_go(self, key: int) -> None:
        place = self.place[key]
        heapq.heappush(self.ahead if place >= self.hand else self.behind, (place, key))

    def victim(self) -> int | None:
        # The first round may only take marks away, and the hand may start in the middle of it.
        for _ in range(3):
            while (key := self.oldest(self.ahead)) is not None:
                self.hand = self.place[key] + 1
                if key not in self.visited:
                    return key
                self.visited.discard(key)
                heapq.heappush(self.behind, (self.place[key], key))
            self.ahead, self.behind, self.hand = self.behind, [], 0
        return None

    def evicted(self, key: int) -> None:
        del self.place[key]
        self.visited.discard(key)

    def check(self) -> None:
        assert self.place.keys() == self.tree.above.keys() and self.visited <= self.place.keys()


class S3Fifo(Queued):
    """S3-FIFO (Yang et al., SOSP 2023): a small queue (10 %) filters what enters the main one; a ghost remembers."""

    name: ClassVar[str] = "s3fifo"
    SMALL: ClassVar[float] = 0.1
    MOST_USES: ClassVar[int] = 3

    def __init__(self, tree: PrefixTree, profile: EngineProfile) -> None:
        super().__init__(tree, profile)
        self.small: set[int] = set()
        self.ghost: OrderedDict[int, None] = OrderedDict()
        self.uses: dict[int, int] = {}
        self.small_leaves: list[tuple[int, int]] = []
        self.main_leaves: list[tuple[int, int]] = []

    def stored(self, key: int) -> None:
        self.uses[key] = 0
        self.enqueue(key)
        if key in self.ghost:
            del self.ghost[key]
        else:
            self.small.add(key)

    def used(self, key: int) -> None:
        self.uses[key] = min(self.uses[key] + 1, self.MOST_USES)

    def free_to_go(self, key: int) -> None:
        leaves = self.small_leaves if key in self.small else self.main_leaves
        heapq.heappush(leaves, (self.place[key], key))

    def victim(self) -> int | None:
        if len(self.small) > self.SMALL * self.tree.blocks:
            found = self._from_small()
            return self._from_main() if found is None else found
        found = self._from_main()
        return self._from_small() if found is None else found

    def _from_small(self) -> int | None:
        while (key := self.oldest(self.small_leaves)) is not None:
            if self.uses[key] <= 1:
                return key
            self.small.discard(key)
            self.uses[key] = 0
            self.enqueue(key)
            self.free_to_go(key)
        return None

    def _from_main(self) -> int | None:
        while (key := self.oldest(self.main_leaves)) is not None:
            if not self.uses[key]:
                return key
            self.uses[key] -= 1
            self.enqueue(key)
            self.free_to_go(key)
        return None

    def evicted(self, key: int) -> None:
        del self.uses[key], self.place[key]
        if key in self.small:
            self.small.discard(key)
            self.ghost[key] = None
            if len(self.ghost) > self.tree.blocks - round(self.SMALL * self.tree.blocks):
                self.ghost.popitem(last=False)

    def check(self) -> None:
        assert self.place.keys() == self.tree.above.keys() == self.uses.keys() and self.small <= self.place.keys()
