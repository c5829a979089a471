"""vLLM's block pool: a free queue of physical blocks that keep their content until they are taken again.

v1/core/block_pool.py and kv_cache_manager.py: a freed request's blocks go to the back of the queue, tail first, those
without a hash to the front (since 0.27); new blocks come from the front and lose their content. A block that is
computed again is a second copy; a look-up takes the copy stored first.
"""

from __future__ import annotations

from collections import OrderedDict

from prefixscope.capacity.job import Job, matched_tokens
from prefixscope.engines.profile import EngineProfile

__all__ = ["FreeQueueMemory"]

EMPTY = -1


class FreeQueueMemory:
    """The pool of one engine (all its ranks together), with reference counts."""

    def __init__(self, blocks: int, profile: EngineProfile) -> None:
        self.profile = profile
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(blocks))
        self.content = [EMPTY] * blocks
        self.users = [0] * blocks
        self.first_copy: dict[int, int] = {}
        self.other_copies: dict[int, list[int]] = {}
        self.held: dict[int, list[int]] = {}
        self.stored: dict[int, int] = {}
        self.evicted = 0

    def start(self, job: Job) -> int | None:
        """Finds the leading blocks, pins them, and takes the rest from the front of the queue."""
        found: list[int] = []
        for block in map(self.first_copy.get, job.keys[: job.limit]):
            if block is None:
                break
            found.append(block)
        cached = matched_tokens(len(found), job.granted, self.profile)
        del found[-(-cached // self.profile.block_size) :]
        users, free = self.users, self.free
        if job.needed > len(free):
            idle = sum(1 for block in found if not users[block])
            if job.needed - len(found) > len(free) - idle:
                return None
        for block in found:
            if users[block]:
                users[block] += 1
            else:
                users[block] = 1
                del free[block]
        self.stored[job.row] = len(found)
        self.held[job.row] = found + self._take(job.needed - len(found))
        return cached

    def _take(self, count: int) -> list[int]:
        pop, content, users = self.free.popitem, self.content, self.users
        taken = []
        for _ in range(count):
            block, _ = pop(False)
            if content[block] >= 0:
                self._forget(content[block], block)
                content[block] = EMPTY
            users[block] = 1
            taken.append(block)
        return taken

    def _forget(self, key: int, block: int) -> None:
        self.evicted += 1
        others = self.other_copies.get(key)
        if others is None:
            del self.first_copy[key]
            return
        if self.first_copy[key] == block:
            self.first_copy[key] = others.pop(0)
        else:
            others.remove(block)
        if not others:
            del self.other_copies[key]

    def publish(self, job: Job) -> None:
        """The prompt's full blocks can be found from now on."""
        self._register(job, job.prompt_keys)

    def _register(self, job: Job, until: int) -> None:
        held, content, where = self.held[job.row], self.content, self.first_copy
        for at in range(self.stored[job.row], until):
            block, key = held[at], job.keys[at]
            content[block] = key
            if where.setdefault(key, block) != block:
                self.other_copies.setdefault(key, []).append(block)
        self.stored[job.row] = max(until, self.stored[job.row])

    def finish(self, job: Job) -> None:
        """All full blocks can be found; nothing is pinned any more. Tail first, so that the tail goes first."""
        self._register(job, len(job.keys))
        free, users, content = self.free, self.users, self.content
        del self.stored[job.row]
        front = []
        to_front = self.profile.unhashed_first
        for block in reversed(self.held.pop(job.row)):
            left = users[block] - 1
            users[block] = left
            if left:
                continue
            if to_front and content[block] < 0:
                front.append(block)
            else:
                free[block] = None
        for block in front:
            free[block] = None
            free.move_to_end(block, last=False)

    def check(self) -> None:
        """The books agree: every block is free or used, and every stored key is where the index says."""
        assert not self.held and len(self.free) == len(self.content) and not any(self.users)
        assert all(self.content[block] == key for key, block in self.first_copy.items())
        copies = len(self.first_copy) + sum(map(len, self.other_copies.values()))
        assert copies == sum(1 for key in self.content if key >= 0)
