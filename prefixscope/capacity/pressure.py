"""How much is in use over time, and who pushes whom out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from prefixscope.capacity.distances import ReuseDistances, reuse_distances
from prefixscope.engines.profile import EngineProfile
from prefixscope.errors import OptionError
from prefixscope.index.lineage import NO_TIME, Int64, Lineage

__all__ = ["Eviction", "WorkingSet", "evictions_by", "families_of", "working_set", "working_sets"]


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Different full blocks used within the last `window_s` seconds, all pools and replicas together.

    `blocks[i]` is the state right after `row[i]`; peak and p95 are over requests.
    """

    window_s: float
    row: Int64
    blocks: Int64
    peak_blocks: int
    p95_blocks: int


def working_set(lineage: Lineage, profile: EngineProfile, window_s: float, *, per_replica: bool = True) -> WorkingSet:
    """The working set of one window; OptionError where it is not more than 0 seconds."""
    return working_sets(lineage, profile, [window_s], per_replica=per_replica)[0]


def working_sets(
    lineage: Lineage, profile: EngineProfile, windows_s: Sequence[float], *, per_replica: bool = True
) -> tuple[WorkingSet, ...]:
    """From one walk for all windows: a request owns its blocks until another uses them or the window has passed."""
    for window_s in windows_s:
        if not window_s > 0:
            raise OptionError(f"a window of {window_s} s: must be more than 0")
    rows = np.flatnonzero(lineage.time_ns != NO_TIME)
    if not len(rows):
        return tuple(WorkingSet(window_s, rows, rows.copy(), 0, 0) for window_s in windows_s)
    block = profile.block_size
    plain = replace(profile, match_unit=block, drop_units=0, rule=_all_shared, grouping=None, lookahead_tokens=0,
                    partial_reuse=False)  # fmt: skip
    timed = lineage.where(lineage.time_ns != NO_TIME)
    (found,) = reuse_distances(
        replace(timed, reads_cache=np.ones(len(timed), np.bool_)), [plain], "lru", per_replica=per_replica
    )
    kept = timed.sequence_tokens if profile.stores_output else timed.prompt_tokens
    return tuple(_within(window_s, rows, timed.time_ns, kept // block, found) for window_s in windows_s)


def _within(window_s: float, rows: Int64, time: Int64, blocks: Int64, found: ReuseDistances) -> WorkingSet:
    """A row brings its blocks, less those taken from owners still inside the window; on leaving it takes away what it
    brought, less what others took from it before."""
    window = round(window_s * 1e9)
    inside = time[found.row] - time[found.owner] <= window
    brings, takes_away = blocks.copy(), blocks.copy()
    np.subtract.at(brings, found.row[inside], found.count[inside])
    np.subtract.at(takes_away, found.owner[inside], found.count[inside])
    left = np.searchsorted(time, time - window, side="left")
    gone = np.concatenate((np.zeros(1, np.int64), np.cumsum(takes_away)))
    state = np.cumsum(brings) - gone[left]
    p95 = int(np.sort(state)[-(-95 * len(state) // 100) - 1])
    return WorkingSet(window_s, rows, state, int(state.max()), p95)


def _all_shared(lineage: Lineage, profile: EngineProfile) -> Int64:
    found = lineage.shared_tokens if profile.stores_output else lineage.shared_prompt_tokens
    return found // profile.block_size * profile.block_size


def families_of(lineage: Lineage, beyond: int = 0) -> Int64:
    """Per row the first row of its family: everyone who has the same first `beyond + 1` tokens."""
    family = np.arange(len(lineage))
    head: list[int] = []
    rows = zip(lineage.parent_row.tolist(), lineage.shared_tokens.tolist(), strict=True)
    for row, (parent, shared) in enumerate(rows):
        head.append(head[parent] if shared > beyond else row)
    family[:] = head
    return family


@dataclass(frozen=True, slots=True)
class Eviction:
    """`tokens` that requests of group `victim` lost at this capacity, because group `evictor` filled the cache.

    None stands for all groups beyond the largest.
    """

    victim: int | None
    evictor: int | None
    tokens: int


def evictions_by(
    distances: ReuseDistances, blocks: int, group: Int64, most: int = 10, where: npt.NDArray[np.bool_] | None = None
) -> tuple[Eviction, ...]:
    """Who evicts whom at one capacity, by `group` (a code per row: family, session, tenant); largest first.

    A lost token counts for the groups that stored new blocks between the last use and the miss, in proportion. The
    numbers add up to infinite - cached tokens (whole units) of all rows, or of the counted ones.
    """
    unit = distances.unit_blocks * distances.profile.block_size
    lost = distances.count - np.clip((blocks - distances.first) // distances.unit_blocks + 1, 0, distances.count)
    hurt = np.flatnonzero(lost > 0 if where is None else (lost > 0) & where[distances.row])
    filled = np.maximum(distances.lineage.sequence_tokens - distances.cached_tokens(blocks), 0)
    names, codes = np.unique(group, return_inverse=True)
    volume = np.bincount(codes, weights=filled, minlength=len(names))
    largest = np.argsort(-volume, kind="stable")[:most]
    place = np.full(len(names), len(largest), np.int64)
    place[largest] = np.arange(len(largest))
    place = place[codes]
    by_group = np.zeros((len(group) + 1, len(largest) + 1), np.int64)
    by_group[np.arange(1, len(group) + 1), place] = filled
    np.cumsum(by_group, axis=0, out=by_group)
    # Between the owner's own row (its blocks were stored by then) and the row before the miss.
    between = by_group[distances.row[hurt]] - by_group[distances.owner[hurt] + 1]
    whole = between.sum(axis=1)
    own = place[distances.owner[hurt]]
    between[whole == 0, own[whole == 0]] = 1
    tokens = lost[hurt] * unit
    parts = between / between.sum(axis=1, keepdims=True) * tokens[:, None]
    table = np.zeros((len(largest) + 1, len(largest) + 1))
    np.add.at(table, place[distances.row[hurt]], parts)
    label = [int(names[i]) for i in largest] + [None]
    whole_tokens = _adding_up(table, int(tokens.sum()))
    found = [
        Eviction(label[v], label[e], int(whole_tokens[v, e]))
        for v, e in zip(*np.nonzero(whole_tokens), strict=True)
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda eviction: -eviction.tokens))


def _adding_up(table: npt.NDArray[np.float64], total: int) -> Int64:
    """Whole numbers near the table that add up to the total: the largest remainders are rounded up."""
    whole: Int64 = np.floor(table).astype(np.int64).reshape(-1)
    missing = total - int(whole.sum())
    order = np.argsort(-(table.reshape(-1) - whole), kind="stable")
    whole[order[:missing]] += 1
    return whole.reshape(table.shape)
