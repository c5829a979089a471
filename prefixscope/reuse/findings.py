"""What a report says first where one plain reason explains most of the lost reuse."""

from __future__ import annotations

import numpy as np

from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import Lineage, Mask
from prefixscope.results import BlockSizeRow, Finding, SmallerUnit

__all__ = ["least_shared_tokens", "short_prefixes"]

WORTH_SAYING = 0.2
"""A share of the reusable tokens: what is lost to short prefixes is the first thing to say from here on."""

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def least_shared_tokens(profile: EngineProfile) -> int:
    """The shortest shared prefix of which this engine takes anything.

    >>> from prefixscope.engines import EngineOptions, resolve
    >>> least_shared_tokens(resolve("vllm"))
    16
    >>> least_shared_tokens(resolve("vllm@0.32", EngineOptions(speculative="eagle")))
    32
    """
    units = profile.match_unit * (1 + profile.drop_units) + profile.lookahead_tokens
    return max(units, profile.minimum_tokens)


def short_prefixes(
    pool: str, lineage: Lineage, profile: EngineProfile, counted: Mask, block_sizes: tuple[BlockSizeRow, ...]
) -> Finding | None:
    """The finding that prefixes are shorter than what the engine can match; None where that is no main reason.

    Lost are the shared tokens of requests that share less than the engine's least; where that is a fifth of all
    reusable tokens it is worth saying. `smaller_units` are the sizes of the sweep below the engine's unit.
    """
    shared = lineage.reusable_tokens[counted]
    some = shared > 0
    least = least_shared_tokens(profile)
    short = some & (shared < least)
    lost, reusable = int(shared[short].sum()), int(shared.sum())
    if profile.partial_reuse or least <= 1 or not short.any() or lost < WORTH_SAYING * reusable:
        return None
    lengths = np.sort(shared[some])
    # The nearest rank: a length that occurs.
    ranks = [max(int(np.ceil(share * len(lengths))) - 1, 0) for share in QUANTILES]
    return Finding(
        kind="prefixes_shorter_than_unit",
        pool=pool,
        requests=len(shared),
        prompt_tokens=int(lineage.prompt_tokens[counted].sum()),
        sharing_requests=int(some.sum()),
        short_requests=int(short.sum()),
        lost_tokens=lost,
        reusable_tokens=reusable,
        least_tokens=least,
        match_unit=profile.match_unit,
        match_unit_why=profile.match_unit_why,
        minimum_tokens=profile.minimum_tokens,
        shared_lengths={f"p{share:.0%}"[:-1]: int(lengths[rank]) for share, rank in zip(QUANTILES, ranks, strict=True)},
        smaller_units=tuple(
            SmallerUnit(row.block_size, row.cached_tokens, row.accepted)
            for row in block_sizes
            if row.block_size < profile.block_size
        ),
        offered=profile.accepted_block_sizes,
    )
