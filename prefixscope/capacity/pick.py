"""What to pick: numbers from the exact curves, and one sentence each that names what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prefixscope.capacity.curve import HitCurve
from prefixscope.capacity.distances import memory_groups
from prefixscope.index.lineage import NO_TIME, Int64, Lineage
from prefixscope.results import rate

__all__ = [
    "BlockSizeChoice",
    "Recommendation",
    "RunningNeed",
    "choose_block_size",
    "choose_from",
    "recommend",
    "running_need",
]

GIB = 2**30


@dataclass(frozen=True, slots=True)
class RunningNeed:
    """Blocks that requests in progress hold, per replica (the largest one); None: neither times nor a concurrency.

    `p95` and `peak` are over time, weighted by duration; a block that several requests share is counted for each.
    """

    p95_blocks: int | None
    peak_blocks: int | None
    source: str
    requests_without_end: int = 0


def running_need(
    lineage: Lineage, block_size: int, concurrency: int | None = None, *, per_replica: bool = True
) -> RunningNeed:
    """From logged starts and ends, or `concurrency` requests of the p95 size where that is given."""
    blocks = -(-lineage.sequence_tokens // block_size)
    if concurrency is not None:
        size = _p95(blocks.tolist()) if len(blocks) else 0
        most = int(blocks.max()) if len(blocks) else 0
        return RunningNeed(
            concurrency * size, concurrency * most, f"{concurrency} requests of the p95 size ({size} blocks)"
        )
    known = (lineage.time_ns != NO_TIME) & (lineage.finished_ns != NO_TIME) & (lineage.finished_ns > lineage.time_ns)
    without = int((~known).sum())
    if not known.any():
        return RunningNeed(None, None, "no logged ends", without)
    p95 = peak = 0
    for rows, _ in memory_groups(lineage, per_replica):
        mine = rows[known[rows]]
        if len(mine):
            one, most = _over_time(lineage.time_ns[mine], lineage.finished_ns[mine], blocks[mine])
            p95, peak = max(p95, one), max(peak, most)
    return RunningNeed(p95, peak, "logged starts and ends", without)


def _p95(values: Sequence[int]) -> int:
    return sorted(values)[-(-95 * len(values) // 100) - 1]


def _over_time(start: Int64, end: Int64, blocks: Int64) -> tuple[int, int]:
    """(p95 weighted by time while anything runs, peak)."""
    times = np.concatenate((end, start))
    order = np.argsort(times, kind="stable")
    held = np.cumsum(np.concatenate((-blocks, blocks))[order])[:-1]
    lasting = np.diff(times[order])
    busy = (held > 0) & (lasting > 0)
    held, lasting = held[busy], lasting[busy]
    by_size = np.argsort(held, kind="stable")
    covered = np.cumsum(lasting[by_size])
    place = int(np.searchsorted(covered, -(-95 * int(covered[-1]) // 100)))
    return int(held[by_size][place]), int(held.max())


@dataclass(frozen=True, slots=True)
class BlockSizeChoice:
    """The largest accepted block size whose infinite-cache reuse is within `within` of the best accepted one."""

    block_size: int
    cached_tokens: int
    best_tokens: int
    why: str


def choose_block_size(
    curves: Sequence[HitCurve], accepted: Sequence[int] | None = None, within: float = 0.01
) -> BlockSizeChoice | None:
    """From one curve per block size; None where no size was tried that the engine accepts, or nothing is reused."""
    tried = [curve for curve in curves if accepted is None or curve.block_size in accepted]
    return choose_from({curve.block_size: curve.infinite_tokens for curve in tried}, within)


def choose_from(reuse: Mapping[int, int], within: float = 0.01) -> BlockSizeChoice | None:
    """From cached tokens of an infinite cache per accepted block size."""
    if not reuse or not max(reuse.values()):
        return None
    best = max(reuse.values())
    size = max(size for size, tokens in reuse.items() if tokens > (1 - within) * best or tokens == best)
    lost = best - reuse[size]
    return BlockSizeChoice(
        size, reuse[size], best,
        f"block size {size}: the largest of {', '.join(map(str, sorted(reuse)))} that costs less than "
        f"{100 * within:g} % of the reuse ({lost:,} of {best:,} cached tokens, infinite cache)",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What cache to give: `cache_blocks` keeps `share` of the infinite reuse, plus what running requests hold.

    `cache_blocks_by_share` has every share asked for. `total_blocks` is None while the running need is not known.
    `gib_buys_tokens`: what one GiB more gives at the user's size, None without a size or bytes.
    """

    share: float
    cache_blocks: int
    running: RunningNeed
    total_blocks: int | None
    bytes: int | None
    block_size: int
    cache_blocks_by_share: tuple[tuple[float, int], ...]
    gib_buys_tokens: int | None
    why: tuple[str, ...]


def recommend(
    curve: HitCurve, running: RunningNeed, *, block_bytes: int | None = None, at_blocks: int | None = None,
    shares: Sequence[float] = (0.95, 0.99),
) -> Recommendation:  # fmt: skip
    """The smallest caches for the shares of reuse (the first is recommended), from an exact curve."""
    reuse = curve.infinite_tokens
    sizes = []
    for share in shares:
        blocks = curve.capacity_for(int(np.ceil(share * reuse)))
        assert blocks is not None, "no share of the infinite reuse is more than all of it"
        sizes.append((share, blocks))
    share, blocks = sizes[0]
    total = None if running.p95_blocks is None else blocks + running.p95_blocks
    buys = None
    if block_bytes and at_blocks is not None:
        more = at_blocks + GIB // block_bytes
        buys = int(curve.tokens_at(more)) - int(curve.tokens_at(at_blocks))
    sentences = [_size_sentence(curve, s, b, block_bytes) for s, b in sizes]
    if total is None:
        sentences.append("cache only: add the blocks of running requests (the log has no ends; --concurrency says it)")
    else:
        sentences.append(
            f"plus {running.p95_blocks:,} blocks{_in_gib(running.p95_blocks, block_bytes)} for running requests "
            f"(p95, {running.source}): {total:,} blocks{_in_gib(total, block_bytes)}"
        )
    if buys is not None and at_blocks is not None:
        points = rate(buys, curve.prompt_tokens)
        sentences.append(
            f"one more GiB at {at_blocks:,} blocks{_in_gib(at_blocks, block_bytes)} buys {buys:,} cached tokens"
            + ("" if points is None else f", {100 * points:.2f} points of prompt tokens")
        )
    known = total if total is not None else blocks
    size = None if not block_bytes else known * block_bytes
    return Recommendation(
        share, blocks, running, total, size, curve.block_size, tuple(sizes), buys, tuple(sentences)
    )  # fmt: skip


def _size_sentence(curve: HitCurve, share: float, blocks: int, block_bytes: int | None) -> str:
    kept = int(curve.tokens_at(blocks))
    return (
        f"{100 * share:g} % of the infinite reuse: {blocks:,} blocks of {curve.block_size}"
        f"{_in_gib(blocks, block_bytes)} keep {kept:,} of {curve.infinite_tokens:,} cached tokens"
    )


def _in_gib(blocks: int | None, block_bytes: int | None) -> str:
    return "" if blocks is None or not block_bytes else f" ({blocks * block_bytes / GIB:.1f} GiB)"
