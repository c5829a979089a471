"""What each request could reuse, what its engine grants in one infinite cache, and what is left of that in a real one.

The losses are differences of neighbouring rungs, so for every request they add up to reusable - expected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import UNKNOWN, Int64, Lineage

__all__ = ["SIMULATED", "Accounting", "account", "blocks_of", "hit_blocks_of"]

SIMULATED = ("in_flight", "routing", "capacity")
"""The rungs below the engine's rule, in the order of the ladder; each may or may not be simulated."""


@dataclass(frozen=True, slots=True)
class Accounting:
    """Per-row token counts, int64[n] each; `reusable - last_token - block_rounding - engine_rule == cached`.

    `in_flight`, `routing` and `capacity` are tokens lost below that; None where the rung was not simulated, UNKNOWN in
    rows where it was not.
    """

    reusable: Int64
    last_token: Int64
    block_rounding: Int64
    engine_rule: Int64
    cached: Int64
    in_flight: Int64 | None = None
    routing: Int64 | None = None
    capacity: Int64 | None = None

    def __post_init__(self) -> None:
        total = self.last_token + self.block_rounding + self.engine_rule
        assert (self.reusable - total == self.cached).all()
        assert (self.cached >= 0).all()
        assert (self.expected >= 0).all()

    @property
    def expected(self) -> Int64:
        """Cached tokens under the last rung that was simulated, int64[n]; `cached` where none was."""
        return self._left_after("capacity")

    def restricted(self, rung: str, tokens: Int64) -> Accounting:
        """The same with one more rung, the lowest so far: `tokens` are cached under its restriction alone.

        Restrictions add up: a row keeps no more than the rungs above left it, so no loss is negative.

        >>> rows = Accounting(*(np.array([value]) for value in (50, 1, 1, 0, 48)))
        >>> rows = rows.restricted("capacity", np.array([16]))
        >>> rows.capacity.tolist(), rows.expected.tolist()
        ([32], [16])
        """
        assert all(getattr(self, name) is None for name in SIMULATED[SIMULATED.index(rung) :])
        left = self.expected
        return replace(self, **{rung: left - np.minimum(left, tokens)})

    def _left_after(self, rung: str) -> Int64:
        left = self.cached
        for name in SIMULATED[: SIMULATED.index(rung) + 1]:
            lost = getattr(self, name)
            if lost is not None:
                left = left - np.where(lost == UNKNOWN, 0, lost)
        return left


def account(lineage: Lineage, profile: EngineProfile) -> Accounting:
    """Applies a profile's rule to every row and splits what is lost on the way down from `reusable`.

    The last token is lost where a whole prompt is shared, rounding goes down to the match unit U, and what the rule
    takes beyond that (dropped units, states not kept, a request that may not read) is the engine's.

    >>> from prefixscope.engines import resolve
    >>> rows = account(Lineage.from_lengths([1152, 1152], [0, 1152], [-1, 0]), resolve("vllm"))
    >>> rows.reusable.tolist(), rows.last_token.tolist(), rows.block_rounding.tolist(), rows.cached.tolist()
    ([0, 1152], [0, 1], [0, 15], [0, 1136])
    """
    reusable = lineage.reusable_tokens
    if profile.recomputes_last_token:
        kept = np.minimum(lineage.shared_tokens, np.maximum(lineage.prompt_tokens - 1, 0))
    else:
        kept = reusable
    rounded = kept if profile.partial_reuse else kept // profile.match_unit * profile.match_unit
    cached = profile.rule(lineage, profile)
    if profile.monotone:
        assert (cached <= rounded).all(), f"{profile.name} grants more than full units of what is shared"
    return Accounting(reusable, reusable - kept, kept - rounded, rounded - cached, cached)


def blocks_of(tokens: Int64, block_size: int) -> Int64:
    """Blocks a stretch of tokens fills; a partly filled last one counts as a block."""
    return -(-tokens // block_size)


def hit_blocks_of(lineage: Lineage, cached: Int64, block_size: int) -> Int64:
    """Blocks of each prompt that `cached` tokens cover: full ones, and a partial last one where all is cached."""
    return np.where(cached >= lineage.prompt_tokens, blocks_of(cached, block_size), cached // block_size)
