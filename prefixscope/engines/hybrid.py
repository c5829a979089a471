"""The rule for models whose layers keep their KV in several groups, or in one that is not full attention.

Such groups keep state only at some places, so what a row finds depends on what happened to earlier siblings: the rule
walks the rows in time order over the prefix tree. A transcription of vLLM's coordinators
(v1/core/kv_cache_coordinator.py, read in 0.32.0) and of the scheduler's splits for recurrent layers
(v1/core/sched/scheduler.py: _mamba_block_aligned_split), for one infinite cache.
"""

from __future__ import annotations

import math

import numpy as np

from prefixscope.engines.group_lookup import GroupLookup, Stored
from prefixscope.engines.group_states import Path, paths
from prefixscope.engines.profile import EngineProfile, Grouping
from prefixscope.index.lineage import Int64, Lineage
from prefixscope.index.topology import Topology

__all__ = ["GroupCache", "grouped_hits"]


def grouped_hits(lineage: Lineage, profile: EngineProfile) -> Int64:
    """Cached tokens of every row under `profile.grouping` and speculative decoding."""
    assert profile.grouping is not None
    cache = GroupCache(profile.grouping, drops=profile.drop_units > 0, ahead=profile.lookahead_tokens)
    cached = np.zeros(len(lineage), np.int64)
    columns = zip(
        paths(Topology.of(lineage)),
        lineage.prompt_tokens.tolist(),
        lineage.sequence_tokens.tolist(),
        lineage.reads_cache.tolist(),
        strict=True,
    )
    for row, (path, prompt_tokens, sequence_tokens, reads_cache) in enumerate(columns):
        hit, junction = cache.longest_hit(path, prompt_tokens) if reads_cache else (0, 0)
        cache.store(path, prompt_tokens, sequence_tokens, hit, junction)
        cached[row] = hit
    return cached


class GroupCache:
    """All groups of a model with what they keep; rows are looked up and stored one after another.

    `drops`: a matched block is given up for speculative decoding. `ahead`: tokens after a block its hash covers.
    """

    def __init__(self, grouping: Grouping, drops: bool = False, ahead: int = 0) -> None:
        groups = sorted(dict.fromkeys(grouping.groups), key=lambda group: group.kind != "full")
        self._alignment = math.lcm(*(group.block_size for group in groups))
        self._single = len(groups) == 1
        self._grouping = grouping
        self._eagle = drops
        self._ahead = ahead
        # A draft model attends to everything, so its layers are in the full-attention group where there is one.
        drafts = {group for group in groups if group.kind == "full"} or set(groups)
        self._groups = [
            GroupLookup(group, self._alignment, grouping.retention, drops and group in drafts, ahead)
            for group in groups
        ]
        self._hash_unit = math.gcd(*(group.block_size for group in groups))

    def longest_hit(self, path: Path, prompt_tokens: int) -> tuple[int, int]:
        """(tokens all groups can serve, the junction to keep for the next sibling or 0)."""
        limit = max(prompt_tokens - 1, 0)
        if self._single:
            group = self._groups[0]
            return group.longest(path, limit, group.eagle), 0
        hashed = prompt_tokens // self._hash_unit * self._hash_unit
        return self._agree(path, limit, hashed if self._grouping.peeks_at_last_token else limit)

    def _agree(self, path: Path, limit: int, furthest: int) -> tuple[int, int]:
        """Lets every group shorten the hit in turn until none does; a longer hit of one group marks a junction.

        A group that gives a block up looks one block past the candidate, though not past token `furthest`.
        """
        hit, longest = limit, 0
        full_hits: dict[int, int] = {}
        verified: set[int] = set()
        once = len(self._groups) == 2 and self._groups[0].kind == "full"
        while True:
            current = hit
            for number, group in enumerate(self._groups):
                if number in full_hits:
                    current = min(current, full_hits[number])
                    continue
                drop = group.eagle and number not in verified
                margin = group.block_size if drop and group.kind != "mamba" else 0
                found = group.longest(path, min(current + margin, furthest) if margin else current, drop)
                if drop:
                    verified.add(number)
                elif found < current:
                    verified.clear()
                current = found
                if group.kind == "full":
                    full_hits[number] = found
                longest = max(longest, current)
            if current >= hit:
                break
            hit = current
            if once:
                break
        return hit, longest if longest > hit else 0

    def store(self, path: Path, prompt_tokens: int, sequence_tokens: int, hit: int, junction: int) -> None:
        """Leaves behind what each group keeps of a row that was served from token `hit` on."""
        for group in self._groups:
            boundaries = [*self._replay_boundaries(prompt_tokens)]
            if group.kind == "mamba" and self._grouping.keeps_resend_state:
                boundaries.append(self._last_cached(group.block_size, prompt_tokens))
            if junction:
                boundaries.append(junction)
                if group.eagle and self._grouping.keeps_below_junction:
                    boundaries.append(junction - group.block_size)
            ends: tuple[int, ...] = ()
            if group.kind == "mamba":
                ends = self._state_ends(group.block_size, prompt_tokens, sequence_tokens, hit, junction)
            group.store(path, Stored(hit, self._cacheable(group, sequence_tokens), boundaries, ends))

    def _cacheable(self, group: GroupLookup, tokens: int) -> int:
        """Tokens of a row that a later hit of the whole model could use in this group."""
        if self._single:
            return tokens
        aligned = tokens // self._alignment * self._alignment
        return min(tokens, aligned + group.block_size) if group.eagle and aligned else aligned

    def _replay_boundaries(self, prompt_tokens: int) -> tuple[int, ...]:
        """Where a resend or an extension of this prompt resumes (kv_cache_coordinator.py: replay_boundaries)."""
        if not (self._eagle and self._grouping.drop_aware_boundaries):
            return (prompt_tokens - 1,)
        unit = self._alignment
        resend, extension = (prompt_tokens - 1) // unit * unit, prompt_tokens // unit * unit
        return tuple({max(resend - unit, 0), max(extension - unit, 0)})

    def _state_ends(self, block: int, prompt: int, sequence: int, hit: int, junction: int) -> tuple[int, ...]:
        """Tokens after which a recurrent state is written out: ends of prefill chunks, then block ends in decode."""
        last_cached = self._last_cached(block, prompt)
        budget = self._grouping.max_batched_tokens
        ends: list[int] = []
        start = hit
        while start < prompt:
            end = min(prompt, start + budget) if budget else prompt
            if end < prompt and ((aligned := end // block * block) > start or block <= budget):
                end = max(aligned, start)
            stops = (
                (start // block + 1) * block if start % block else 0,
                last_cached,
                start + (junction - start) // block * block if start < junction < end else 0,
            )
            end = min((stop for stop in stops if start < stop < end), default=end)
            assert end > start
            ends.append(end)
            start = end
        ends.extend(range((prompt // block + 1) * block, sequence + 1, block))
        if self._ahead > 1:
            # A state is let go two steps later; by then its hash, which covers the next tokens, must be known.
            ends = [end for end in ends if end + self._ahead <= prompt]
        return tuple(ends)

    def _last_cached(self, block: int, prompt: int) -> int:
        """The last block end of a prompt at which prefill stops so that the state can be kept."""
        if self._eagle:
            return max(prompt // block * block - block, 0)
        spared = max(1, self._ahead) if self._grouping.keeps_resend_state else 0
        return (prompt - spared) // block * block
