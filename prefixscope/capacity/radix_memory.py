"""SGLang's radix cache: a tree whose edges hold runs of pages; a whole leaf is evicted at a time, least recent first.

mem_cache/radix_cache.py, unified_radix_cache.py: matching and inserting refresh every node on the path and split a
node where the match ends inside it; paths of running requests are locked; eviction happens when an allocation lacks
room and may free more than was asked. The prompt is inserted when its prefill has ended, the rest at the end.
"""

from __future__ import annotations

import heapq

from prefixscope.capacity.job import Job, matched_tokens
from prefixscope.engines.profile import EngineProfile

__all__ = ["RadixMemory"]


class _Node:
    __slots__ = ("above", "children", "keys", "locks", "number", "used")

    def __init__(self, above: _Node | None, keys: list[int], number: int) -> None:
        self.above = above
        self.keys = keys
        self.children: dict[int, _Node] = {}
        self.locks = 0
        self.used = 0
        self.number = number


class RadixMemory:
    """The tree and the count of free pages."""

    def __init__(self, blocks: int, profile: EngineProfile) -> None:
        self.profile, self.blocks, self.free = profile, blocks, blocks
        self.root = _Node(None, [], 0)
        self.nodes = 1
        self.clock = 0
        self.leaves: list[tuple[int, int, _Node]] = []
        self.locked: dict[int, _Node] = {}
        self.owned: dict[int, int] = {}
        self.evicted = 0

    def start(self, job: Job) -> int | None:
        """Matches, locks the path, and evicts leaves until the rest fits."""
        most = min(job.limit, job.granted // self.profile.block_size)
        node, found = self._match(job.keys[:most])
        self._lock(node, 1)
        need = job.needed - found
        while self.free < need:
            if not self._evict():
                self._lock(node, -1)
                return None
        self.free -= need
        self.locked[job.row], self.owned[job.row] = node, found
        return matched_tokens(found, job.granted, self.profile)

    def _match(self, keys: list[int]) -> tuple[_Node, int]:
        self.clock += 1
        node, at = self.root, 0
        node.used = self.clock
        while at < len(keys) and keys[at] in node.children:
            child = node.children[keys[at]]
            same = len(child.keys) if keys[at : at + len(child.keys)] == child.keys else 0
            for mine, theirs in zip(keys[at : at + len(child.keys)], child.keys, strict=False):
                if same == len(child.keys) or mine != theirs:
                    break
                same += 1
            if same < len(child.keys):
                child = self._split(child, same)
            child.used = self.clock
            node, at = child, at + same
        return node, at

    def _split(self, node: _Node, at: int) -> _Node:
        """A new node for the first `at` keys of `node`, which keeps the rest and its place among running requests."""
        assert node.above is not None
        upper = _Node(node.above, node.keys[:at], self.nodes)
        self.nodes += 1
        upper.locks, upper.used = node.locks, node.used
        upper.children[node.keys[at]] = node
        node.above.children[node.keys[0]] = upper
        node.above, node.keys = upper, node.keys[at:]
        return upper

    def _lock(self, node: _Node | None, change: int) -> None:
        while node is not None:
            node.locks += change
            self._offer(node)
            node = node.above

    def _offer(self, node: _Node) -> None:
        if node.above is not None and not node.locks and not node.children:
            heapq.heappush(self.leaves, (node.used, node.number, node))

    def _evict(self) -> bool:
        while self.leaves:
            used, _, node = heapq.heappop(self.leaves)
            if node.above is None or node.locks or node.children or node.used != used:
                continue
            above = node.above
            del above.children[node.keys[0]]
            node.above = None
            self.free += len(node.keys)
            self.evicted += len(node.keys)
            self._offer(above)
            return True
        return False

    def publish(self, job: Job) -> None:
        """Inserts the prompt's pages; pages whose content is in the tree already are given back."""
        self._insert(job, job.keys[: job.prompt_keys])

    def _insert(self, job: Job, keys: list[int]) -> None:
        owned = self.owned[job.row]
        if len(keys) <= owned:
            return
        node, at = self._match(keys)
        self.free += at - owned
        if at < len(keys):
            leaf = _Node(node, keys[at:], self.nodes)
            self.nodes += 1
            leaf.used = self.clock
            node.children[keys[at]] = leaf
            node = leaf
        self._lock(node, 1)
        self._lock(self.locked[job.row], -1)
        self.locked[job.row], self.owned[job.row] = node, len(keys)

    def finish(self, job: Job) -> None:
        """Inserts everything complete, gives back the partly filled page, unlocks the path."""
        self._insert(job, job.keys)
        self.free += job.needed - self.owned.pop(job.row)
        self._lock(self.locked.pop(job.row), -1)

    def check(self) -> None:
        """Nothing is locked, and pages in the tree and free pages are all there are."""
        held, stack = 0, [self.root]
        while stack:
            node = stack.pop()
            assert node.locks == 0
            held += len(node.keys)
            stack.extend(node.children.values())
        assert held + self.free == self.blocks
