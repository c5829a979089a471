"""Block-size sensitivity: one vectorised expression per size, without reading the log again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from prefixscope.engines.profile import EngineProfile, Grouping
from prefixscope.index.lineage import Int64, Lineage, Mask
from prefixscope.results import BlockSizeRow, rate
from prefixscope.reuse.accounting import blocks_of, hit_blocks_of

__all__ = ["BLOCK_SIZES", "largest_unit_with_reuse", "stored_tokens", "sweep", "unique_blocks", "with_block_size"]


BLOCK_SIZES = tuple(2**power for power in range(13))
"""1 to 4096: from token granularity to the largest units hybrid models use."""


def with_block_size(profile: EngineProfile, block_size: int) -> EngineProfile:
    """The same engine with another block size; its match unit keeps its proportion to the block."""
    unit = (
        profile.match_unit * block_size // profile.block_size
        if profile.match_unit != profile.block_size
        else block_size
    )
    return dataclasses.replace(
        profile, block_size=block_size, match_unit=max(unit, 1), grouping=_regrouped(profile, block_size)
    )


def _regrouped(profile: EngineProfile, block_size: int) -> Grouping | None:
    """The KV groups with all their blocks scaled alike."""
    if profile.grouping is None or block_size == profile.block_size:
        return profile.grouping
    groups = tuple(
        dataclasses.replace(group, block_size=max(group.block_size * block_size // profile.block_size, 1))
        for group in profile.grouping.groups
    )
    return dataclasses.replace(profile.grouping, groups=groups)


def _scales(profile: EngineProfile, block_size: int) -> bool:
    """Whether every KV group's block stays a whole number of tokens when the largest becomes `block_size`."""
    groups = () if profile.grouping is None else profile.grouping.groups
    return all(group.block_size * block_size % profile.block_size == 0 for group in groups)


def stored_tokens(lineage: Lineage, profile: EngineProfile) -> Int64:
    """T as this engine stores it: without outputs where it does not keep them, int64[n]."""
    return lineage.sequence_tokens if profile.stores_output else lineage.prompt_tokens


def unique_blocks(lineage: Lineage, profile: EngineProfile, counted: Mask, block_size: int) -> int:
    """Distinct full blocks that the counted rows store first: those beyond what each shares with earlier rows.

    Where a row's own ids end before T (an output of known length only), the rest is its own and counts as new.
    For profile `trace` a partly filled last id is a block as well.
    """
    stored = stored_tokens(lineage, profile)
    shared = np.minimum(lineage.shared_tokens if profile.stores_output else lineage.shared_prompt_tokens, stored)
    if not profile.recomputes_last_token and profile.partial_reuse:
        full = stored // block_size
        whole_tail = np.where(shared >= stored, blocks_of(stored, block_size), shared // block_size)
        return int((np.where(stored % block_size, full + 1, full) - whole_tail)[counted].sum())
    return int((stored // block_size - shared // block_size)[counted].sum())


def sweep(
    lineage: Lineage, profile: EngineProfile, counted: Mask, block_sizes: Sequence[int] = BLOCK_SIZES
) -> tuple[BlockSizeRow, ...]:
    """Reuse and waste of each block size under the same engine rule, in an infinite cache, over the counted rows.

    Sizes that the log's own unit does not divide can't be told from it and are left out; a trace has only its own.
    """
    coarsest = int(lineage.unit.max(initial=1))
    if not profile.recomputes_last_token and profile.partial_reuse:
        block_sizes = (profile.block_size,)
    sizes = sorted({*block_sizes} | ({profile.block_size} if profile.grouping is not None else set()))
    return tuple(
        _row(lineage, profile, counted, size) for size in sizes if size % coarsest == 0 and _scales(profile, size)
    )


def _row(lineage: Lineage, profile: EngineProfile, counted: Mask, block_size: int) -> BlockSizeRow:
    sized = with_block_size(profile, block_size)
    cached = sized.rule(lineage, sized)
    stored = stored_tokens(lineage, sized)[counted]
    prompt_tokens = int(lineage.prompt_tokens[counted].sum())
    total = int(cached[counted].sum())
    hits = int(hit_blocks_of(lineage, cached, block_size)[counted].sum())
    blocks = int(blocks_of(lineage.prompt_tokens[counted], block_size).sum())
    accepted = None if profile.accepted_block_sizes is None else block_size in profile.accepted_block_sizes
    return BlockSizeRow(
        block_size=block_size,
        cached_tokens=total,
        prefill_tokens=prompt_tokens - total,
        token_hit_rate=rate(total, prompt_tokens),
        block_hit_rate=rate(hits, blocks),
        unique_blocks=unique_blocks(lineage, sized, counted, block_size),
        wasted_slot_tokens=int((blocks_of(stored, block_size) * block_size - stored).sum()),
        accepted=accepted,
    )


def largest_unit_with_reuse(lineage: Lineage, profile: EngineProfile, counted: Mask | None = None) -> int | None:
    """The largest match unit (in tokens) under which anything at all is reused; None where nothing is shared.

    A full unit must fit into what some request shares, so it is the longest stretch any request could take.

    >>> from prefixscope.engines import resolve
    >>> largest_unit_with_reuse(Lineage.from_lengths([300, 300], [0, 240], [-1, 0]), resolve("vllm"))
    240
    """
    shared = lineage.shared_tokens if profile.stores_output else lineage.shared_prompt_tokens
    limit = lineage.prompt_tokens - 1 if profile.recomputes_last_token else lineage.prompt_tokens
    reach = np.where(lineage.reads_cache, np.minimum(shared, limit), 0) - profile.lookahead_tokens
    # A dropped unit must be matched beside the one that is kept.
    longest = int((reach if counted is None else reach[counted]).max(initial=0)) // (1 + profile.drop_units)
    coarsest = int(lineage.unit.max(initial=1))
    longest = longest // coarsest * coarsest
    return longest if longest > 0 else None
