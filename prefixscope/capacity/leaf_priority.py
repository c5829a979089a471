"""TensorRT-LLM's blocks: a trie where only leaves go, the lowest priority first, then the least recently used.

The same content is kept once; the partly filled last block of a sequence is kept and can be copied in part. All
requests have the default priority (35) here, since logs don't tell another.
"""

from __future__ import annotations

import heapq

from prefixscope.capacity.job import Job, matched_tokens
from prefixscope.engines.profile import EngineProfile

__all__ = ["DEFAULT_PRIORITY", "LeafPriorityMemory"]

DEFAULT_PRIORITY = 35


class LeafPriorityMemory:
    """Blocks by key, each with the key before it, users, children, priority and last use."""

    def __init__(self, blocks: int, profile: EngineProfile) -> None:
        self.profile, self.blocks = profile, blocks
        self.before: dict[int, int] = {}
        self.children: dict[int, int] = {}
        self.users: dict[int, int] = {}
        self.used: dict[int, int] = {}
        self.leaves: list[tuple[int, int, int]] = []
        self.pinned: dict[int, list[int]] = {}
        self.private: dict[int, int] = {}
        self.free = blocks
        self.clock = 0
        self.evicted = 0

    def start(self, job: Job) -> int | None:
        """Pins the leading blocks found and makes room for the others."""
        found: list[int] = []
        for key in job.keys[: job.limit]:
            if key not in self.used:
                break
            found.append(key)
        cached = matched_tokens(len(found), job.granted // self.profile.block_size * self.profile.block_size,
                                self.profile)  # fmt: skip
        del found[cached // self.profile.block_size :]
        rest = job.granted - cached
        if 0 < rest < self.profile.block_size and job.partial_key in self.used:
            cached = job.granted
        self._pin(found)
        need = job.needed - len(found)
        while self.free < need:
            if not self._evict():
                self._unpin(found)
                return None
        self.free -= need
        self.pinned[job.row], self.private[job.row] = found, need
        return cached

    def _pin(self, keys: list[int]) -> None:
        for key in keys:
            self.users[key] = self.users.get(key, 0) + 1

    def _unpin(self, keys: list[int]) -> None:
        for key in reversed(keys):
            self.users[key] -= 1
            self.clock += 1
            self.used[key] = self.clock
            self._offer(key)

    def _offer(self, key: int) -> None:
        if not self.children.get(key) and not self.users[key]:
            heapq.heappush(self.leaves, (DEFAULT_PRIORITY, self.used[key], key))

    def _evict(self) -> bool:
        while self.leaves:
            _, used, key = heapq.heappop(self.leaves)
            if self.used.get(key) != used or self.users[key] or self.children.get(key):
                continue
            above = self.before.pop(key)
            del self.used[key], self.users[key]
            self.free += 1
            self.evicted += 1
            if above >= 0:
                self.children[above] -= 1
                self._offer(above)
            return True
        return False

    def publish(self, job: Job) -> None:
        """The prompt's full blocks are stored; content that is there already frees the block that repeats it."""
        self._store(job, job.prompt_keys)

    def _store(self, job: Job, until: int) -> None:
        pinned = self.pinned[job.row]
        for at in range(len(pinned), until):
            key = job.keys[at]
            self.private[job.row] -= 1
            if key in self.used:
                self.free += 1
            else:
                self.before[key] = job.keys[at - 1] if at else -1
                if at:
                    self.children[job.keys[at - 1]] = self.children.get(job.keys[at - 1], 0) + 1
                self.used[key] = self.clock
            self.users[key] = self.users.get(key, 0) + 1
            pinned.append(key)

    def finish(self, job: Job) -> None:
        """Everything is stored, the partly filled tail as well, and released tail first."""
        self._store(job, len(job.keys))
        self.free += self.private.pop(job.row)
        self._unpin(self.pinned.pop(job.row))

    def check(self) -> None:
        """Nothing runs, all blocks are accounted for, and every stored block's predecessor is stored."""
        assert not self.pinned and self.free + len(self.used) == self.blocks
        assert all(above < 0 or above in self.used for above in self.before.values())
