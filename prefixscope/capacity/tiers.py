"""Memory behind the engine's own cache: what each tier adds, what it moves, and whether fetching beats computing.

Exclusive tiers hold different blocks, so two of them act like one cache of both sizes; inclusive ones hold copies, so
only the largest counts. A tier in chunks (LMCache: 256 tokens) keeps whole chunks of prompts with a least-recent order
of its own. A tier never adds less than nothing: where it finds less than the tiers above, its gain is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from prefixscope.capacity.distances import ReuseDistances, reuse_distances
from prefixscope.capacity.sizes import Tier
from prefixscope.engines.profile import EngineProfile
from prefixscope.errors import OptionError
from prefixscope.index.lineage import Int64, Lineage

__all__ = ["Recompute", "TierUse", "tiers_of"]

Recompute = Callable[[Int64, Int64], npt.NDArray[np.float64]]
"""(tokens cached before, tokens to compute) -> seconds, per request."""


@dataclass(frozen=True, slots=True)
class TierUse:
    """What one tier does. Arrays are per row, counts of tokens are prompt tokens.

    `found_tokens`: what the tier could give alone; `gain_tokens`: what it adds to the tiers above it. `read_bytes`:
    fetched for the gain; `written_bytes`: stored into it, about (exclusive: pushed out of the tier above; inclusive and
    chunks: newly computed). Seconds and `slower_requests` (fetching takes longer than computing) are None where
    bandwidth, bytes or the speed of prefill are not known; `saved_seconds` counts only requests where fetching wins.
    """

    tier: Tier
    blocks: int
    found_tokens: Int64
    gain_tokens: Int64
    read_bytes: int | None
    written_bytes: int | None
    fetch_seconds: float | None
    recompute_seconds: float | None
    saved_seconds: float | None
    slower_requests: int | None

    @property
    def total_gain_tokens(self) -> int:
        return int(self.gain_tokens.sum())


def tiers_of(
    lineage: Lineage, profile: EngineProfile, tiers: Sequence[Tier], *, token_bytes: int | None = None,
    inclusive: bool = False, chunk_tokens: int | None = None, recompute: Recompute | float | None = None,
    per_replica: bool = True, where: npt.NDArray[np.bool_] | None = None,
) -> tuple[TierUse, ...]:  # fmt: skip
    """The first tier is the engine's own memory; the sum of all gains is what is cached with all of them.

    With `where`, bytes and seconds are those of the counted rows; the rows before them fill the tiers.
    `token_bytes` are bytes of KV per token in the whole replica. `recompute`: prefill tokens per second, or a function.
    `chunk_tokens` applies to the tiers after the first. OptionError where a size can't be turned into blocks.
    """
    if not tiers:
        raise OptionError("--tier: at least one tier (the engine's own memory) is needed")
    if chunk_tokens is not None and chunk_tokens < 1:
        raise OptionError(f"chunk of {chunk_tokens} tokens: must be at least 1")
    block_bytes = None if token_bytes is None else token_bytes * profile.block_size
    (own,) = reuse_distances(lineage, [profile], per_replica=per_replica)
    chunks = None if chunk_tokens is None else _chunked(lineage, profile, chunk_tokens, per_replica)
    uses: list[TierUse] = []
    have = np.zeros(len(lineage), np.int64)
    counted = np.ones(len(lineage), np.bool_) if where is None else where
    sizes: list[int] = []
    for tier in tiers:
        blocks = tier.capacity.blocks(profile.block_size, block_bytes)
        above = max(sizes, default=0) if inclusive else sum(sizes)
        sizes.append(blocks)
        reach = max(sizes) if inclusive else sum(sizes)
        if chunks is not None and uses:
            found = _in_chunks(chunks, reach * profile.block_size // chunks.profile.block_size)
            written = int(_computed_tokens(chunks, found)[counted].sum())
        else:
            found = own.cached_tokens(reach)
            stored = _computed_tokens(own, have)
            # Exclusive: what went through the tiers above and no longer fits there.
            room = 0 if not uses or inclusive else above * profile.block_size
            written = max(int(stored.sum()) - room, 0) - max(int(stored[~counted].sum()) - room, 0)
        gain = np.maximum(found - have, 0)
        prices = _priced(tier, gain[counted], have[counted], token_bytes, recompute, bool(uses))
        uses.append(TierUse(tier, blocks, found, gain, prices[0], _bytes(written, token_bytes), *prices[1:]))
        have = have + gain
    return tuple(uses)


def _chunked(lineage: Lineage, profile: EngineProfile, chunk: int, per_replica: bool) -> ReuseDistances:
    def whole_chunks(rows: Lineage, _: EngineProfile) -> Int64:
        shared = np.minimum(rows.shared_prompt_tokens, rows.prompt_tokens)
        return np.where(rows.reads_cache, shared // chunk * chunk, 0)

    grid = replace(
        profile, block_size=chunk, match_unit=chunk, rule=whole_chunks, drop_units=0, stores_output=False,
        lookahead_tokens=0, grouping=None, partial_reuse=False,
    )  # fmt: skip
    return reuse_distances(lineage, [grid], "lru", per_replica=per_replica)[0]


def _in_chunks(chunks: ReuseDistances, capacity: int) -> Int64:
    """Tokens found in whole chunks; a prompt found to its end is given up by one token (vllm_v1_adapter.py)."""
    return np.minimum(chunks.cached_tokens(capacity), np.maximum(chunks.lineage.prompt_tokens - 1, 0))


def _computed_tokens(distances: ReuseDistances, found: Int64) -> Int64:
    """Tokens in whole blocks that had to be computed, and are stored, per row."""
    unit = distances.profile.block_size
    kept = distances.lineage.sequence_tokens if distances.profile.stores_output else distances.lineage.prompt_tokens
    stored: Int64 = np.maximum(kept // unit * unit - found, 0)
    return stored


def _bytes(tokens: int, token_bytes: int | None) -> int | None:
    return None if token_bytes is None else tokens * token_bytes


def _priced(
    tier: Tier, gain: Int64, have: Int64, token_bytes: int | None, recompute: Recompute | float | None, fetched: bool
) -> tuple[int | None, float | None, float | None, float | None, int | None]:
    """(bytes read, seconds to fetch, to compute instead, saved, requests where fetching is slower).

    The engine's own memory needs no fetching.
    """
    fetch = computed = saved = slower = None
    read = _bytes(int(gain.sum()), token_bytes) if fetched else 0
    if fetched and token_bytes is not None and tier.bytes_per_s is not None:
        asked = gain > 0
        seconds = np.where(asked, tier.latency_s + gain * token_bytes / tier.bytes_per_s, 0.0)
        fetch = float(seconds.sum())
        if recompute is not None:
            instead = recompute(have, gain) if callable(recompute) else gain / recompute
            instead = np.where(asked, instead, 0.0)
            computed = float(instead.sum())
            saved = float(np.maximum(instead - seconds, 0.0).sum())
            slower = int((asked & (seconds >= instead)).sum())
    return read, fetch, computed, saved, slower
