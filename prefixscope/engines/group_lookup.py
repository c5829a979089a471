"""How far each kind of KV group can serve a prompt, and what a finished prompt leaves behind in it.

A transcription of vLLM's managers (v1/core/single_type_kv_cache_manager.py, read in 0.32.0), for one infinite cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

from prefixscope.engines.group_states import GroupStates, Path
from prefixscope.engines.profile import CacheGroup

__all__ = ["GroupLookup", "Stored", "contiguous_run"]


@dataclass(frozen=True, slots=True)
class Stored:
    """What one served row offers to a group: its tokens from the hit to the last one with KV."""

    hit: int
    tokens: int
    boundaries: Sequence[int]
    """Places where a later row may resume: the prompt's replay boundaries and a detected junction."""
    state_ends: Sequence[int]
    """Where a recurrent state was written out (ends of prefill chunks, and block ends in decode)."""


def contiguous_run(blocks: Iterable[int], needed: int, block_size: int, alignment: int, drop: bool) -> int:
    """Tokens served by a sliding window: the rightmost aligned run of `needed` kept blocks, or a run from block 0.

    `blocks` are indices of kept blocks from the right; `drop` gives one matched block up (speculative decoding).

    >>> contiguous_run([9, 6, 5, 1, 0], needed=2, block_size=16, alignment=16, drop=False)
    112
    """
    run, top, before = 0, 0, None
    for index in blocks:
        if run and index + 1 != before:
            run = 0
        before = index
        if run == 0:
            if ((index if drop else index + 1) * block_size) % alignment:
                continue
            top = index
        run += 1
        if run >= needed:
            count = top + 1
            break
    else:
        count = run if before == 0 else 0
        while count * block_size % alignment:
            count -= 1
    if drop and count:
        count -= 1
        while count * block_size % alignment:
            count -= 1
    return count * block_size


class GroupLookup:
    """One group of layers: what it keeps and how it matches.

    `alignment` is the granularity of hits of the whole model in tokens, `retention` which states are kept (None all,
    0 only at boundaries, R also once per R tokens), `eagle` whether the group gives a matched block up.
    """

    def __init__(self, group: CacheGroup, alignment: int, retention: int | None, eagle: bool, ahead: int) -> None:
        self.kind = group.kind
        self.block_size = group.block_size
        self.eagle = eagle
        self._window = group.window or 0
        self._alignment = alignment
        self._retention = retention
        self._states = GroupStates(ahead)

    def needed_blocks(self, eagle: bool) -> int:
        """Contiguous blocks before a boundary that a sliding window must find there."""
        return -(-(self._window - 1) // self.block_size) + (1 if eagle else 0)

    def longest(self, path: Path, limit: int, drop: bool) -> int:
        """Leading tokens, at most `limit`, that this group alone can serve."""
        if self.kind == "full":
            return self._full(path, limit, drop)
        if self.kind == "sliding_window":
            kept = self._kept_blocks(path, limit // self.block_size)
            return contiguous_run(kept, self.needed_blocks(drop), self.block_size, self._alignment, drop)
        if self.kind == "mamba":
            return next((end for end in self._states.marked(path, limit) if end % self._alignment == 0), 0)
        return self._chunked_local(path, limit)

    def store(self, path: Path, row: Stored) -> None:
        """Keeps what the group's retention keeps of this row."""
        if self.kind == "mamba":
            self._store_states(path, row)
            return
        self._states.extend(path, row.tokens // self.block_size * self.block_size)
        if self.kind != "sliding_window" or self._retention is None:
            return
        first, end = row.hit // self.block_size, row.tokens // self.block_size
        shift = 1 if self.eagle else 0
        for boundary in row.boundaries:
            last = boundary // self._alignment * self._alignment // self.block_size + shift
            kept = range(max(first, last - self.needed_blocks(self.eagle)), min(end, last))
            self._states.mark(path, [(index + 1) * self.block_size for index in kept])

    def _full(self, path: Path, limit: int, drop: bool) -> int:
        hit = min(limit, self._states.reach(path)) // self.block_size * self.block_size
        if drop and hit:
            hit -= min(self._alignment, self.block_size)
        return hit - hit % self._alignment

    def _chunked_local(self, path: Path, limit: int) -> int:
        # Blocks before the chunk that holds the next token are never read again, so they count as served unseen.
        skipped = limit // self._window * self._window // self.block_size
        return max(skipped, min(limit, self._states.reach(path)) // self.block_size) * self.block_size

    def _segment(self) -> int | None:
        """Blocks per segment whose tail is kept, 1 for all of them, None for none."""
        if self._retention == 0:
            return None
        return (self._alignment if self._retention is None else self._retention) // self.block_size

    def _kept_blocks(self, path: Path, limit: int) -> Iterator[int]:
        """Indices below `limit` of kept sliding-window blocks, from the right."""
        block_size, segment = self.block_size, self._segment()
        marked = (end // block_size - 1 for end in self._states.marked(path, limit * block_size))
        if segment is None:
            return marked
        needed, shift = self.needed_blocks(self.eagle), 1 if self.eagle else 0
        reached = min(limit, self._states.reach(path) // block_size)
        if needed >= segment:
            return iter(range(reached - 1, -1, -1))
        tails = (
            index
            for index in range(reached - 1, -1, -1)
            if index >= shift and (index - shift) % segment >= segment - needed
        )
        return _unique(merge(marked, tails, reverse=True))

    def _store_states(self, path: Path, row: Stored) -> None:
        kept = {boundary // self._alignment * self._alignment for boundary in row.boundaries}
        retention = self._retention
        self._states.mark(
            path,
            [
                end
                for end in row.state_ends
                if end <= row.tokens
                and end % self.block_size == 0
                and (retention is None or (retention > 0 and end % retention == 0) or end in kept)
            ],
        )


def _unique(indices: Iterable[int]) -> Iterator[int]:
    before = None
    for index in indices:
        if index != before:
            yield index
        before = index
