"""Policies that evict the leaf of the lowest rank; a rank is a tuple, and of one request the tail goes first."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections import OrderedDict
from typing import ClassVar

from prefixscope.capacity.job import Job
from prefixscope.capacity.policies.base import Policy, PrefixTree
from prefixscope.engines.profile import EngineProfile

__all__ = ["Fifo", "LeastFrequent", "LeastRecent", "Lifetime", "RecomputeCost", "SegmentedLeastRecent", "SharedFirst"]

Rank = tuple[float, ...]


class Ranked(Policy):
    """Keeps each block's rank; a heap holds leaves, and entries that are out of date are passed over."""

    def __init__(self, tree: PrefixTree, profile: EngineProfile) -> None:
        super().__init__(tree, profile)
        self.rank: dict[int, Rank] = {}
        self.leaves: list[tuple[Rank, int]] = []

    @abstractmethod
    def rank_of(self, key: int) -> Rank:
        """The rank after a use or on storing."""

    def stored(self, key: int) -> None:
        self.rank[key] = self.rank_of(key)

    def used(self, key: int) -> None:
        self.rank[key] = self.rank_of(key)

    def free_to_go(self, key: int) -> None:
        if not self.tree.children.get(key):
            heapq.heappush(self.leaves, (self.rank[key], key))

    def lowest(self) -> tuple[Rank, int] | None:
        """The leaf that may go with the lowest rank, left in the heap."""
        while self.leaves:
            rank, key = self.leaves[0]
            if self.rank.get(key) == rank and self.tree.may_go(key):
                return rank, key
            heapq.heappop(self.leaves)
        return None

    def victim(self) -> int | None:
        lowest = self.lowest()
        return None if lowest is None else lowest[1]

    def evicted(self, key: int) -> None:
        del self.rank[key]

    def check(self) -> None:
        assert self.rank.keys() == self.tree.above.keys()

    def last_use(self, key: int) -> Rank:
        """(row, nearness to the head): what was used last, and of that the head, stays longest."""
        return (self.tree.row, -self.tree.depth[key])


class LeastRecent(Ranked):
    """LRU: the block whose last use lies furthest back."""

    name: ClassVar[str] = "lru"

    def rank_of(self, key: int) -> Rank:
        return self.last_use(key)


class Fifo(Ranked):
    """First in, first out: uses don't matter."""

    name: ClassVar[str] = "fifo"

    def rank_of(self, key: int) -> Rank:
        return self.rank[key] if key in self.rank else self.last_use(key)


class LeastFrequent(Ranked):
    """LFU: the fewest uses while resident; among equals the least recent."""

    name: ClassVar[str] = "lfu"

    def rank_of(self, key: int) -> Rank:
        return (self.rank[key][0] + 1 if key in self.rank else 1, *self.last_use(key))


class RecomputeCost(Ranked):
    """GreedyDual with frequency (Cherkasova 1998): what is cheap to compute again goes first.

    A block's cost grows with its place, since attention reads all before it: at `EVEN_TOKENS` tokens attention costs
    as much as everything else. The rank is inflation + uses x cost; inflation is the rank of the last victim.
    """

    name: ClassVar[str] = "cost"
    EVEN_TOKENS: ClassVar[int] = 8192

    def __init__(self, tree: PrefixTree, profile: EngineProfile) -> None:
        super().__init__(tree, profile)
        self.uses: dict[int, int] = {}
        self.inflation = 0.0

    def rank_of(self, key: int) -> Rank:
        self.uses[key] = self.uses.get(key, 0) + 1
        cost = 1 + self.tree.depth[key] * self.profile.block_size / self.EVEN_TOKENS
        return (self.inflation + self.uses[key] * cost, *self.last_use(key))

    def evicted(self, key: int) -> None:
        self.inflation = max(self.inflation, self.rank[key][0])
        del self.uses[key]
        super().evicted(key)


class SharedFirst(Ranked):
    """Priority: blocks that several different continuations followed (system prompts, headers) go last, else LRU.

    Only past requests count: a block is shared from the moment a second continuation is seen behind it.
    """

    name: ClassVar[str] = "priority"

    def __init__(self, tree: PrefixTree, profile: EngineProfile) -> None:
        super().__init__(tree, profile)
        self.continuation: dict[int, int] = {}
        self.shared: set[int] = set()

    def begin(self, job: Job) -> list[int]:
        keys = job.keys
        branch = 0
        for at in range(len(keys) - 1, 0, -1):
            if self.continuation.setdefault(keys[at - 1], keys[at]) != keys[at]:
                branch = at
                break
        for at in range(branch - 1, -1, -1):
            if keys[at] in self.shared:
                break
            self.shared.add(keys[at])
        return []

    def rank_of(self, key: int) -> Rank:
        return (key in self.shared, *self.last_use(key))


class SegmentedLeastRecent(Ranked):
    """SLRU (Karedla 1994): blocks used again move to a protected segment of 80 %, whose oldest fall back."""

    name: ClassVar[str] = "slru"
    PROTECTED: ClassVar[float] = 0.8

    def __init__(self, tree: PrefixTree, profile: EngineProfile) -> None:
        super().__init__(tree, profile)
        self.protected: OrderedDict[int, None] = OrderedDict()

    def rank_of(self, key: int) -> Rank:
        return (key in self.protected, *self.last_use(key))

    def used(self, key: int) -> None:
        self.protected[key] = None
        self.protected.move_to_end(key)
        super().used(key)
        if len(self.protected) > self.PROTECTED * self.tree.blocks:
            oldest, _ = self.protected.popitem(last=False)
            super().used(oldest)
            self.free_to_go(oldest)

    def evicted(self, key: int) -> None:
        self.protected.pop(key, None)
        super().evicted(key)


class Lifetime(LeastRecent):
    """TTL: a block is forgotten `SECONDS` after its last use, whether room is needed or not; else LRU."""

    name: ClassVar[str] = "ttl"
    SECONDS: ClassVar[float] = 300.0

    def __init__(self, tree: PrefixTree, profile: EngineProfile) -> None:
        super().__init__(tree, profile)
        self.seconds = profile.lifetime_s or self.SECONDS
        self.used_ns: dict[int, int] = {}

    def rank_of(self, key: int) -> Rank:
        self.used_ns[key] = self.tree.now_ns
        return super().rank_of(key)

    def begin(self, job: Job) -> list[int]:
        oldest = self.tree.now_ns - round(self.seconds * 1e9)
        gone: dict[int, None] = {}
        fewer: dict[int, int] = {}
        while self.leaves:
            rank, key = self.leaves[0]
            if self.rank.get(key) == rank and key not in gone and self._children(key, fewer) == 0:
                if self.used_ns[key] >= oldest:
                    break
                heapq.heappop(self.leaves)
                gone[key] = None
                above = self.tree.above[key]
                fewer[above] = fewer.get(above, 0) + 1
                if above >= 0 and self._children(above, fewer) == 0:
                    heapq.heappush(self.leaves, (self.rank[above], above))
            else:
                heapq.heappop(self.leaves)
        return list(gone)

    def _children(self, key: int, fewer: dict[int, int]) -> int:
        return self.tree.children.get(key, 0) - fewer.get(key, 0)

    def evicted(self, key: int) -> None:
        del self.used_ns[key]
        super().evicted(key)
