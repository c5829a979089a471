"""A small prefix cache on real token ids, block by block, as vLLM keeps it: the memory behind the mock endpoint.

It shares no code with the prediction: predictions come from a prefix tree and a rule, this walks hash chains and a
free queue, so that the two can be held against each other. Rules as of vLLM 0.27 and later (v1/core/block_pool.py,
kv_cache_manager.py): full blocks only, the last prompt token is computed again, freed blocks go to the back of the
queue tail first, blocks without a hash to its front, and a block loses its hash only when it is taken again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MockEngine", "Running"]


@dataclass(slots=True)
class Running:
    """A request that holds blocks: its tokens so far, its blocks, and how many prompt tokens it found cached."""

    namespace: object
    tokens: list[int]
    blocks: list[int]
    cached_tokens: int


class MockEngine:
    """A pool of `usable_blocks` blocks of `block_size` tokens (None: endless).

    >>> engine = MockEngine(4)
    >>> first = engine.admit("", [1, 2, 3, 4, 5])
    >>> engine.admit("", [1, 2, 3, 4, 9]).cached_tokens
    4
    """

    def __init__(self, block_size: int, usable_blocks: int | None = None) -> None:
        self.block_size = block_size
        self.usable_blocks = usable_blocks
        self._free: OrderedDict[int, None] = OrderedDict((number, None) for number in range(usable_blocks or 0))
        self._made = usable_blocks or 0
        self._holders: dict[int, int] = {}
        self._key_of: dict[int, int] = {}
        self._blocks_with: dict[int, OrderedDict[int, None]] = {}
        self._number_of: dict[object, int] = {}

    def admit(self, namespace: object, prompt: Sequence[int]) -> Running | None:
        """Looks the prompt up and takes the blocks it needs; None while running requests leave too few."""
        chain = self._chain(namespace, prompt)
        found: list[int] = []
        for key in chain[: (len(prompt) - 1) // self.block_size]:
            holders = self._blocks_with.get(key)
            if not holders:
                break
            found.append(next(iter(holders)))
        needed = -(-len(prompt) // self.block_size) - len(found)
        if self.usable_blocks is not None and needed > len(self._free) - sum(block in self._free for block in found):
            return None
        for block in found:
            self._hold(block)
        running = Running(namespace, list(prompt), found, len(found) * self.block_size)
        for _ in range(needed):
            running.blocks.append(self._take())
        self._register(running, chain)
        return running

    def append(self, running: Running, token: int) -> bool:
        """Computes the KV of one more token; False (and nothing changed) when the pool has no block for it."""
        if len(running.tokens) % self.block_size == 0:
            if self.usable_blocks is not None and not self._free:
                return False
            running.blocks.append(self._take())
        running.tokens.append(token)
        if len(running.tokens) % self.block_size == 0:
            self._register(running, self._chain(running.namespace, running.tokens))
        return True

    def release(self, running: Running) -> None:
        """Gives the blocks back: those with a key to the back of the queue, tail first; the others to the front."""
        for block in reversed(running.blocks):
            self._holders[block] -= 1
            if self._holders[block]:
                continue
            self._free[block] = None
            if block not in self._key_of:
                self._free.move_to_end(block, last=False)

    def reset(self) -> bool:
        """Forgets everything; False (and nothing forgotten) while a request holds blocks."""
        if any(self._holders.values()):
            return False
        self._key_of.clear()
        self._blocks_with.clear()
        return True

    def _chain(self, namespace: object, tokens: Sequence[int]) -> list[int]:
        """One number per full block that stands for all tokens up to its end; never two meanings for one number."""
        chain, above = [], self._number(("namespace", namespace))
        for start in range(0, len(tokens) // self.block_size * self.block_size, self.block_size):
            above = self._number((above, tuple(tokens[start : start + self.block_size])))
            chain.append(above)
        return chain

    def _number(self, key: object) -> int:
        return self._number_of.setdefault(key, len(self._number_of))

    def _take(self) -> int:
        if self.usable_blocks is None:
            block, self._made = self._made, self._made + 1
        else:
            block, _ = self._free.popitem(last=False)
        key = self._key_of.pop(block, None)
        if key is not None:
            del self._blocks_with[key][block]
        self._holders[block] = 1
        return block

    def _hold(self, block: int) -> None:
        self._free.pop(block, None)
        self._holders[block] = self._holders.get(block, 0) + 1

    def _register(self, running: Running, chain: list[int]) -> None:
        for block, key in zip(running.blocks, chain, strict=False):
            if block not in self._key_of:
                self._key_of[block] = key
                self._blocks_with.setdefault(key, OrderedDict())[block] = None
