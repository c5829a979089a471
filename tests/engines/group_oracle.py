"""A slow cache of single blocks for models with several KV groups: every block by the tokens up to its end.

No tree and no runs: each group holds a set of token prefixes, and a look-up tries every length from the longest down.
Recurrent states exist after the prefill chunks and block ends that a row was asked to stop at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from prefixscope.engines.profile import CacheGroup, Grouping
from tests.engines.traffic import Asked

Prefix = tuple[int, ...]


class BlockCache:
    """One infinite cache without speculative decoding; `ahead` tokens after a block are part of its name."""

    def __init__(self, grouping: Grouping, ahead: int = 0) -> None:
        self.groups = grouping.groups
        self.retention = grouping.retention
        self.ahead = ahead
        self.unit = math.lcm(*(group.block_size for group in self.groups))
        self.kept: list[set[Prefix]] = [set() for _ in self.groups]

    def serve(self, request: Asked) -> int:
        """Cached tokens of one request; afterwards its blocks are in the cache."""
        hit, junction = self.look_up(request.prompt) if request.reads else (0, 0)
        for number, group in enumerate(self.groups):
            for end in self.stored_ends(group, request, hit, junction):
                if end + self.ahead <= len(request.sequence):
                    self.kept[number].add(tuple(request.sequence[: end + self.ahead]))
        return hit

    def look_up(self, prompt: Sequence[int]) -> tuple[int, int]:
        lengths = [length for length in range(0, len(prompt), self.unit) if length + self.ahead <= len(prompt)]
        alone = [max(length for length in lengths if self.serves(n, prompt, length)) for n in range(len(self.groups))]
        hit = max(length for length in lengths if all(self.serves(n, prompt, length) for n in range(len(self.groups))))
        # Full attention is asked first, so only its longer hit can show a junction; one group alone shows none.
        full = [length for length, group in zip(alone, self.groups, strict=True) if group.kind == "full"]
        longest = min(full) if full and len(self.groups) > 1 else hit
        return hit, longest if longest > hit else 0

    def serves(self, number: int, prompt: Sequence[int], length: int) -> bool:
        group, size = self.groups[number], self.groups[number].block_size
        first = 0
        if length == 0:
            return True
        if group.kind == "mamba":
            first = length - size
        elif group.kind == "sliding_window":
            assert group.window is not None
            first = max(length - math.ceil((group.window - 1) / size) * size, 0)
        ends = range(first + size, length + 1, size)
        return all(tuple(prompt[: end + self.ahead]) in self.kept[number] for end in ends)

    def stored_ends(self, group: CacheGroup, request: Asked, hit: int, junction: int) -> list[int]:
        size, prompt, tokens = group.block_size, len(request.prompt), len(request.sequence)
        resume = (prompt - 1) // self.unit * self.unit
        places = {resume, junction}
        ends = list(range(hit + size, tokens + 1, size))
        if len(self.groups) > 1:
            ends = [end for end in ends if end <= tokens // self.unit * self.unit]
        if group.kind == "full":
            return ends
        every = self.unit if self.retention is None else self.retention
        if group.kind == "sliding_window":
            assert group.window is not None
            tail = math.ceil((group.window - 1) / size) * size
            if every:
                places |= set(range(0, tokens + every + 1, every))
            return [end for end in ends if any(place - tail < end <= place for place in places)]
        stops = {(prompt - max(1, self.ahead)) // size * size, junction}
        written = [end for end in ends if end in stops or end == prompt or end > prompt]
        if self.retention is None:
            return written
        places |= {(prompt - max(1, self.ahead)) // size * size}
        return [end for end in written if end in places or (every and end % every == 0)]
