"""Sums, rates and groups over the counted rows of an accounted lineage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import UNKNOWN, Int64, Labels, Lineage, Mask
from prefixscope.results import Group, Losses, Totals, rate
from prefixscope.reuse.accounting import SIMULATED, Accounting, blocks_of, hit_blocks_of
from prefixscope.reuse.sweep import stored_tokens

__all__ = ["add_totals", "groups_of", "sessions_of", "totals_of"]


def totals_of(lineage: Lineage, accounting: Accounting, profile: EngineProfile, counted: Mask) -> Totals:
    """The totals of the counted rows; the other rows only warmed the cache.

    `second_half_token_hit_rate` counts the later half of the counted rows, so everything before it is warm-up.
    """
    prompts = lineage.prompt_tokens[counted]
    cached = accounting.cached[counted]
    stored = stored_tokens(lineage, profile)[counted]
    outputs = lineage.output_tokens[counted]
    hits = hit_blocks_of(lineage, accounting.cached, profile.block_size)[counted]
    blocks = blocks_of(prompts, profile.block_size)
    prompt_tokens, cached_tokens = int(prompts.sum()), int(cached.sum())
    expected = int(accounting.expected[counted].sum())
    reusable = int(accounting.reusable[counted].sum())
    half = len(prompts) // 2
    return Totals(
        requests=len(prompts),
        prompt_tokens=prompt_tokens,
        output_tokens=int(outputs[outputs != UNKNOWN].sum()) if (outputs != UNKNOWN).any() else None,
        stored_unique_tokens=int((stored - np.minimum(lineage.shared_tokens[counted], stored)).sum()),
        first_seen_tokens=prompt_tokens - reusable,
        reusable_tokens=reusable,
        reusable_prompt_only_tokens=int(np.minimum(lineage.shared_prompt_tokens, lineage.prompt_tokens)[counted].sum()),
        ideal_prefill_tokens=prompt_tokens - reusable,
        cached_tokens=cached_tokens,
        prefill_tokens=prompt_tokens - cached_tokens,
        expected_cached_tokens=expected,
        expected_prefill_tokens=prompt_tokens - expected,
        hit_blocks=int(hits.sum()),
        blocks=int(blocks.sum()),
        token_hit_rate=rate(cached_tokens, prompt_tokens),
        expected_token_hit_rate=rate(expected, prompt_tokens),
        second_half_token_hit_rate=rate(int(cached[half:].sum()), int(prompts[half:].sum())),
        block_hit_rate=rate(int(hits.sum()), int(blocks.sum())),
        mean_request_hit_rate=float((hits / blocks).mean()) if len(blocks) else None,
        losses=Losses(
            last_token=int(accounting.last_token[counted].sum()),
            block_rounding=int(accounting.block_rounding[counted].sum()),
            engine_rule=int(accounting.engine_rule[counted].sum()),
            **{name: _lost(getattr(accounting, name), counted) for name in SIMULATED},
        ),
    )


def _lost(tokens: Int64 | None, counted: Mask) -> int | None:
    """The sum over counted rows where the rung was simulated; None where it was simulated for none."""
    if tokens is None:
        return None
    known = counted & (tokens != UNKNOWN)
    return int(tokens[known].sum()) if known.any() else None


def _lost_together(losses: list[Losses], rung: str) -> int | None:
    """The sum over the pools where the rung was simulated; None where it was simulated in none."""
    known = [lost for lost in (getattr(loss, rung) for loss in losses) if lost is not None]
    return sum(known) if known else None


def add_totals(parts: tuple[Totals, ...], lineage: Lineage, cached: Int64, counted: Mask) -> Totals:
    """The totals of several pools together; rates are taken of the sums, the second half is that of the whole log."""
    if len(parts) == 1:
        return parts[0]

    def total(name: str) -> int:
        return sum(getattr(part, name) for part in parts)

    prompts, hits = lineage.prompt_tokens[counted], cached[counted]
    half = len(prompts) // 2
    known = [part.output_tokens for part in parts if part.output_tokens is not None]
    requests = total("requests")
    means = [part.mean_request_hit_rate * part.requests for part in parts if part.mean_request_hit_rate is not None]
    counts = {
        name: total(name)
        for name in (
            "requests", "prompt_tokens", "stored_unique_tokens", "first_seen_tokens", "reusable_tokens",
            "reusable_prompt_only_tokens", "ideal_prefill_tokens", "cached_tokens", "prefill_tokens",
            "expected_cached_tokens", "expected_prefill_tokens", "hit_blocks", "blocks",
        )
    }  # fmt: skip
    losses = [part.losses for part in parts]
    return Totals(
        **counts,
        output_tokens=sum(known) if known else None,
        token_hit_rate=rate(counts["cached_tokens"], counts["prompt_tokens"]),
        expected_token_hit_rate=rate(counts["expected_cached_tokens"], counts["prompt_tokens"]),
        second_half_token_hit_rate=rate(int(hits[half:].sum()), int(prompts[half:].sum())),
        block_hit_rate=rate(counts["hit_blocks"], counts["blocks"]),
        mean_request_hit_rate=sum(means) / requests if requests else None,
        losses=Losses(
            last_token=sum(loss.last_token for loss in losses),
            block_rounding=sum(loss.block_rounding for loss in losses),
            engine_rule=sum(loss.engine_rule for loss in losses),
            **{name: _lost_together(losses, name) for name in SIMULATED},
        ),
    )


def groups_of(lineage: Lineage, accounting: Accounting, counted: Mask) -> tuple[Group, ...]:
    """Sums per model, adapter, namespace, tenant, replica and session, largest prompt volume first."""
    columns: Mapping[str, Labels] = {
        "model": lineage.model,
        "adapter": lineage.adapter,
        "namespace": Labels(lineage.namespace.astype(np.int32), lineage.namespaces),
        "tenant": lineage.tenant,
        "replica": lineage.replica,
        "session": lineage.session,
    }
    groups: list[Group] = []
    for by, labels in columns.items():
        codes = labels.codes[counted]
        if not len(codes) or (codes == UNKNOWN).all():
            continue
        # Code UNKNOWN becomes slot 0, so rows without a label are a group of their own.
        slots = len(labels.names) + 1

        def sums(values: Int64, codes: Any = codes, slots: int = slots) -> list[int]:
            totals = np.zeros(slots, np.int64)
            np.add.at(totals, codes + 1, values[counted])
            return totals.tolist()

        rows = np.bincount(codes + 1, minlength=slots).tolist()
        prompt_sums, reusable_sums = sums(lineage.prompt_tokens), sums(accounting.reusable)
        cached_sums, expected_sums = sums(accounting.cached), sums(accounting.expected)
        order = sorted((slot for slot in range(slots) if rows[slot]), key=lambda slot: (-prompt_sums[slot], slot))
        groups.extend(
            Group(
                by=by,
                name=labels.names[slot - 1] if slot else None,
                requests=rows[slot],
                prompt_tokens=prompt_sums[slot],
                reusable_tokens=reusable_sums[slot],
                cached_tokens=cached_sums[slot],
                expected_cached_tokens=expected_sums[slot],
                token_hit_rate=rate(cached_sums[slot], prompt_sums[slot]),
                expected_token_hit_rate=rate(expected_sums[slot], prompt_sums[slot]),
            )
            for slot in order
        )
    return tuple(groups)


def sessions_of(lineage: Lineage, counted: Mask) -> Mapping[str, Any]:
    """How requests group into logged sessions, and how much reuse comes from the request's own session.

    A request's reuse is credited to the session of its `parent_row`, the most recent request that shares all of it.
    """
    codes = lineage.session.codes
    known = counted & (codes != UNKNOWN)
    sizes = np.bincount(codes[known]) if known.any() else np.zeros(0, np.int64)
    sizes = sizes[sizes > 0]
    has_parent = known & (lineage.parent_row >= 0)
    own = np.zeros(len(lineage), np.bool_)
    own[has_parent] = codes[has_parent] == codes[lineage.parent_row[has_parent]]
    reusable = lineage.reusable_tokens
    return {
        "count": len(sizes),
        "requests_with_session": int(known.sum()),
        "requests_without_session": int((counted & (codes == UNKNOWN)).sum()),
        "median_requests": float(np.median(sizes)) if len(sizes) else None,
        "largest_requests": int(sizes.max()) if len(sizes) else None,
        "reusable_from_own_session_tokens": int(reusable[known & own].sum()),
        "reusable_from_others_tokens": int(reusable[known & ~own].sum()),
    }
