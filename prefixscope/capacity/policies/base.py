"""One control flow for every eviction policy on a prefix tree: look up, make room, store, check the books.

    found   = the leading blocks of the request that are resident
    use     the resident blocks of its path, tail first
    evict   leaves that are not on its path, as the policy chooses, until the rest fits or nothing can go
    store   as much of the rest as there is room for, from the head

A block may go only when nothing behind it is resident, so every cache stays closed under prefixes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from prefixscope.capacity.distances import memory_groups
from prefixscope.capacity.job import Job, matched_tokens
from prefixscope.capacity.pool import jobs_of
from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import NO_TIME, Int64, Lineage

__all__ = ["TELL_EVERY", "Policy", "PolicyRun", "PrefixTree", "grid_of", "run_policy"]

TELL_EVERY = 500


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """What one policy gives at one capacity: cached prompt tokens per row, and whole units found over all rows.

    `blocks` is the capacity in the engine's blocks; the simulation stores whole match units.
    """

    policy: str
    blocks: int
    cached_tokens: Int64
    hit_units: int
    evicted_units: int


class PrefixTree:
    """What is resident: `above[key]` is the block before it, `children` counts resident blocks behind one."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.above: dict[int, int] = {}
        self.depth: dict[int, int] = {}
        self.children: dict[int, int] = {}
        self.on_path: set[int] = set()
        self.row = 0
        self.now_ns = 0

    def may_go(self, key: int) -> bool:
        """Whether a resident block is a leaf outside the current request's path."""
        return not self.children.get(key) and key not in self.on_path

    def store(self, key: int, above: int, depth: int) -> None:
        self.above[key] = above
        self.depth[key] = depth
        if above >= 0:
            self.children[above] = self.children.get(above, 0) + 1

    def evict(self, key: int) -> int:
        """Drops a leaf; returns the block before it, or -1."""
        above = self.above.pop(key)
        del self.depth[key]
        if above >= 0:
            self.children[above] -= 1
            if not self.children[above]:
                del self.children[above]
        return above

    def check(self) -> None:
        """Within the capacity, closed under prefixes, and the counts of children are right."""
        assert len(self.above) <= self.blocks
        counted: dict[int, int] = {}
        for above in self.above.values():
            assert above < 0 or above in self.above
            if above >= 0:
                counted[above] = counted.get(above, 0) + 1
        assert counted == self.children


class Policy(ABC):
    """What a policy may do: remember uses, and name a victim for which `tree.may_go` holds (None: nothing can go)."""

    name: ClassVar[str] = ""

    def __init__(self, tree: PrefixTree, profile: EngineProfile) -> None:
        self.tree = tree
        self.profile = profile

    def begin(self, job: Job) -> list[int]:
        """Called before the look-up; returns blocks that are gone by now, leaves first."""
        return []

    def used(self, key: int) -> None:
        """A resident block was on a request's path."""

    @abstractmethod
    def stored(self, key: int) -> None:
        """A block became resident."""

    def free_to_go(self, key: int) -> None:
        """A resident block became a leaf, or its request ended."""

    @abstractmethod
    def victim(self) -> int | None:
        """The block to evict now."""

    def evicted(self, key: int) -> None:
        """The block is gone."""

    def check(self) -> None:
        """The policy's own books agree with the tree."""


def grid_of(profile: EngineProfile, blocks: int) -> tuple[EngineProfile, int]:
    """The profile with whole match units as blocks, and the capacity in such units."""
    unit = max(profile.match_unit, profile.block_size)
    return replace(profile, block_size=unit), blocks * profile.block_size // unit


def run_policy(
    lineage: Lineage, profile: EngineProfile, blocks: int, policy: Callable[[PrefixTree, EngineProfile], Policy],
    name: str, *, per_replica: bool = True, served: Callable[[int], None] | None = None,
) -> PolicyRun:  # fmt: skip
    """Serves all rows one after another with a cache of `blocks` blocks per pool and replica.

    `served` is told now and then how many more rows are done.
    """
    grid, units = grid_of(profile, blocks)
    cached = np.zeros(len(lineage), np.int64)
    hits = gone = 0
    for rows, members in memory_groups(lineage, per_replica):
        cache = _Cache(units, grid, policy)
        for job, time in zip(jobs_of(members, grid), members.time_ns.tolist(), strict=True):
            found = cache.serve(job, time)
            cached[rows[job.row]] = matched_tokens(found, job.granted, grid)
            hits += max(found - grid.drop_units, 0)
            if served is not None and job.row % TELL_EVERY == TELL_EVERY - 1:
                served(TELL_EVERY)
        cache.check()
        gone += cache.gone
    return PolicyRun(name, blocks, cached, hits, gone)


class _Cache:
    """The control flow at the top of this module."""

    def __init__(
        self, units: int, profile: EngineProfile, policy: Callable[[PrefixTree, EngineProfile], Policy]
    ) -> None:
        self.tree = PrefixTree(units)
        self.policy = policy(self.tree, profile)
        self.profile = profile
        self.gone = 0

    def serve(self, job: Job, time_ns: int) -> int:
        """Units found for the request (before any drop)."""
        tree, policy, keys = self.tree, self.policy, job.keys
        tree.row = job.row
        if time_ns != NO_TIME:
            tree.now_ns = time_ns
        tree.on_path = set()
        for key in policy.begin(job):
            self._evict(key)
        resident = 0
        while resident < len(keys) and keys[resident] in tree.above:
            resident += 1
        tree.on_path = set(keys)
        for key in reversed(keys[:resident]):
            policy.used(key)
        new = keys[resident:]
        while len(tree.above) + len(new) > tree.blocks and (victim := policy.victim()) is not None:
            self._evict(victim)
        until = min(len(keys), resident + tree.blocks - len(tree.above))
        for at in range(resident, until):
            tree.store(keys[at], keys[at - 1] if at else -1, at)
        for key in reversed(keys[resident:until]):
            policy.stored(key)
        tree.on_path = set()
        if until:
            policy.free_to_go(keys[until - 1])
        # The engine's rule bounds the hits even where more is resident (states kept only at some places).
        most = -(-job.granted // self.profile.block_size) + self.profile.drop_units
        return min(resident, job.limit, most)

    def _evict(self, key: int) -> None:
        assert self.tree.may_go(key), "a policy may only name a leaf outside the current path"
        above = self.tree.evict(key)
        self.policy.evicted(key)
        self.gone += 1
        if above >= 0 and self.tree.may_go(above):
            self.policy.free_to_go(above)

    def check(self) -> None:
        self.tree.check()
        self.policy.check()
