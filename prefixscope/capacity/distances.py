"""From a lineage to stack distances: one walk per pool and replica, for several block sizes of an engine at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prefixscope.capacity._compile import COMPILE_FROM_REQUESTS
from prefixscope.capacity._lru import Grid, Segments, segments_of
from prefixscope.capacity.curve import CurveModel, Extras, HitCurve, LifetimeCurve, ramps_of
from prefixscope.engines.profile import EngineProfile
from prefixscope.errors import OptionError
from prefixscope.index.lineage import NO_TIME, Int64, Lineage
from prefixscope.index.topology import Topology, stamp

__all__ = ["ReuseDistances", "memory_groups", "reuse_distances", "stored_lineage"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ReuseDistances:
    """Stack distances of every reused match unit of a log, for one profile.

    Segment i: `row[i]` finds `count[i]` match units that `owner[i]` used last (both rows of the lineage); the first
    at stack distance `first[i]` blocks, the next ones `unit_blocks` apart. `extra_*` are partly matched blocks. All
    rows of the lineage are in, whatever their pool: capacities are blocks per replica of a pool. `model` is `lru` also
    where the engine's own terms were asked for and it has none (its memory is a tree, not a queue of blocks).
    """

    profile: EngineProfile
    model: CurveModel
    lineage: Lineage
    unit_blocks: int
    row: Int64
    owner: Int64
    first: Int64
    count: Int64
    extra_row: Int64
    extra_distance: Int64
    extra_tokens: Int64
    extra_blocks: Int64
    steps: int

    def cached_tokens(self, blocks: int) -> Int64:
        """Cached prompt tokens of every row at one capacity, int64[n]; the engine's rule where it is unlimited."""
        units = np.clip((blocks - self.first) // self.unit_blocks + 1, 0, self.count)
        tokens = np.zeros(len(self.lineage), np.int64)
        np.add.at(tokens, self.row, units * (self.unit_blocks * self.profile.block_size))
        held = self.extra_distance <= blocks
        np.add.at(tokens, self.extra_row[held], self.extra_tokens[held])
        return tokens

    def curve(self, where: Mask | None = None) -> HitCurve:
        """The hit curve of all rows, or of the counted ones (the others still warm and fill the cache)."""
        counted = np.ones(len(self.lineage), np.bool_) if where is None else where
        mine, extras = (self.count > 0), np.ones(len(self.extra_row), np.bool_)
        if where is not None:
            mine &= where[self.row]
            extras = where[self.extra_row]
        order = np.argsort(self.extra_distance[extras], kind="stable")
        prompts = self.lineage.prompt_tokens[counted]
        return HitCurve(
            model=self.model,
            block_size=self.profile.block_size,
            unit_blocks=self.unit_blocks,
            requests=len(prompts),
            prompt_tokens=int(prompts.sum()),
            prompt_blocks=int((-(-prompts // self.profile.block_size)).sum()),
            ramps=ramps_of(self.first[mine], self.count[mine], self.unit_blocks),
            extras=Extras(
                self.extra_distance[extras][order], self.extra_tokens[extras][order], self.extra_blocks[extras][order]
            ),
            upper_bound=self.profile.grouping is not None,
        )

    def lifetimes(self, where: Mask | None = None) -> LifetimeCurve:
        """Cached tokens for every lifetime, from the same walk; whole units only, unlimited size."""
        time = self.lineage.time_ns
        counted = np.ones(len(self.lineage), np.bool_) if where is None else where
        known = (time[self.row] != NO_TIME) & (time[self.owner] != NO_TIME) & counted[self.row] & (self.count > 0)
        ages = time[self.row[known]] - time[self.owner[known]]
        order = np.argsort(ages, kind="stable")
        tokens = self.count[known] * (self.unit_blocks * self.profile.block_size)
        return LifetimeCurve(
            age_ns=ages[order],
            cached_tokens=np.cumsum(tokens[order]),
            prompt_tokens=int(self.lineage.prompt_tokens[counted].sum()),
            requests_without_time=int((time[counted] == NO_TIME).sum()),
        )


def reuse_distances(
    lineage: Lineage, profiles: Sequence[EngineProfile], model: CurveModel = "engine", *,
    per_replica: bool = True, compile_from: int = COMPILE_FROM_REQUESTS,
) -> tuple[ReuseDistances, ...]:  # fmt: skip
    """Distances for each profile (block size, match unit), in one walk where the profiles keep the same tokens.

    `engine` adds the blocks that can't be matched (partly filled, duplicates) as this engine keeps them; `lru` is the
    textbook. Against the pool simulator, the engine curve differs on up to 0.2 % of requests on pools that hold one or
    two requests (where some are resent) and was not seen to differ on larger ones. With a unit dropped for
    speculative decoding one pass can't know which of two copies a capacity keeps: 7 to 10 % of requests differ on such
    tiny pools, and 0.6 % of the prompt tokens on one that holds seven of the longest requests. Rows that don't read
    the cache take nothing and fill it. OptionError where match unit and block size don't divide one another.
    """
    found: list[list[ReuseDistances]] = [[] for _ in profiles]
    for rows, members in memory_groups(lineage, per_replica):
        walked: dict[tuple[bool, int, int], list[int]] = {}
        for k, profile in enumerate(profiles):
            kept = (profile.stores_output, _whole_symbol(profile), profile.lookahead_tokens)
            walked.setdefault(kept, []).append(k)
        for picked in walked.values():
            walks = _walk(members, [profiles[k] for k in picked], model, compile_from)
            for k, distances in zip(picked, walks, strict=True):
                found[k].append(_in_table(distances, rows, lineage))
    return tuple(_joined(parts, profile, model, lineage) for parts, profile in zip(found, profiles, strict=True))


def memory_groups(lineage: Lineage, per_replica: bool = True) -> Iterator[tuple[Int64, Lineage]]:
    """(rows, their own lineage) of everyone who shares one KV memory: a pool, or one replica of it where logged."""
    replica = lineage.replica.codes.astype(np.int64) + 1 if per_replica else np.zeros(len(lineage), np.int64)
    group = lineage.pool * (len(lineage.replica.names) + 1) + replica
    for number in np.unique(group).tolist():
        mask = group == number
        yield np.flatnonzero(mask), lineage.where(mask)


def stored_lineage(lineage: Lineage, profile: EngineProfile) -> tuple[Int64, Int64, Int64]:
    """(parent, shared, total) of what the engine keeps: whole sequences, or prompts only where outputs are not kept."""
    parent, shared, total = lineage.parent_row, lineage.shared_tokens, lineage.sequence_tokens
    symbol = max(_whole_symbol(profile), 1)
    if not profile.stores_output:
        total = -(-lineage.prompt_tokens // symbol) * symbol
        known = parent >= 0
        if (shared > total).any() or (shared[known] > total[parent[known]]).any():
            tree = Topology.of(lineage)
            stamps = stamp(tree, tree.prompt_node, tree.prompt_node, tree.roots)
            parent, shared = stamps.parent_row, stamps.shared_tokens
    if symbol > 1:
        shared = np.where(shared >= lineage.prompt_tokens, total, shared // symbol * symbol)
        parent = np.where(shared > 0, parent, -1)
    return parent, shared, total


def _whole_symbol(profile: EngineProfile) -> int:
    """The block size where a partly filled last block matches as a whole (hash traces), else 0."""
    return profile.block_size if profile.partial_reuse and not profile.recomputes_last_token else 0


def _grid(profile: EngineProfile, model: CurveModel) -> Grid:
    block, unit = profile.block_size, profile.match_unit
    if unit % block and block % unit:
        raise OptionError(f"--match-unit {unit}: neither a multiple nor a divisor of the block size {block}")
    drop = profile.drop_units if unit >= block else 0
    queued = model == "engine" and profile.eviction == "lru" and not _whole_symbol(profile)
    return Grid(
        block_size=block,
        unit_blocks=max(unit // block, 1),
        drop_units=drop,
        slot=queued and profile.unhashed_first,
        copies=queued,
        tail=(queued and not profile.unhashed_first) or (model == "engine" and _keeps_tails(profile)),
    )


def _keeps_tails(profile: EngineProfile) -> bool:
    return profile.partial_reuse and profile.recomputes_last_token


def _walk(
    lineage: Lineage, profiles: Sequence[EngineProfile], model: CurveModel, compile_from: int
) -> list[ReuseDistances]:
    parent, shared, total = stored_lineage(lineage, profiles[0])
    if profiles[0].lookahead_tokens:
        # A block can be found only with the tokens after it: what the last ones of a sequence hold is never found.
        shared, total = (np.maximum(column - profiles[0].lookahead_tokens, 0) for column in (shared, total))
    granted = [np.where(lineage.reads_cache, profile.rule(lineage, profile), 0) for profile in profiles]
    grids = [_grid(profile, model) for profile in profiles]
    blocks = []
    for tokens, profile, grid in zip(granted, profiles, grids, strict=True):
        whole = tokens // grid.block_size
        # A partly matched block that lies inside the shared part is walked as a whole one and corrected afterwards.
        inside = (tokens % grid.block_size > 0) & (whole < shared // grid.block_size)
        blocks.append(whole + inside if profile.match_unit < grid.block_size or _whole_symbol(profile) else whole)
    segments = segments_of(parent, shared, total, blocks, grids, compile_from)
    return [_one(lineage, profiles[k], model, grids[k], segments, k, granted[k], shared) for k in range(len(profiles))]


def _one(
    lineage: Lineage, profile: EngineProfile, model: CurveModel, grid: Grid, segments: Segments, k: int,
    granted: Int64, shared: Int64,
) -> ReuseDistances:  # fmt: skip
    extra = _extras(profile, grid, segments, k, granted, shared)
    if not (grid.slot or grid.copies or grid.tail):
        model = "lru"
    first, count = segments.first[k], segments.count[k]
    return ReuseDistances(
        profile, model, lineage, grid.unit_blocks, segments.row, segments.owner, first, count, *extra, segments.steps
    )


def _extras(
    profile: EngineProfile, grid: Grid, segments: Segments, k: int, granted: Int64, shared: Int64
) -> tuple[Int64, Int64, Int64, Int64]:
    """(row, distance, tokens, blocks) of partly matched blocks, where the engine grants those."""
    nothing = np.zeros(0, np.int64)
    block = grid.block_size
    if profile.match_unit >= block and not _whole_symbol(profile):
        return nothing, nothing, nothing, nothing
    rest = granted % block
    inside = (rest > 0) & (granted // block < shared // block)
    beyond = np.flatnonzero((rest > 0) & ~inside)
    counted = np.flatnonzero(segments.count[k] > 0)
    # Segments of a row come deepest first, so the last unit of its first counted one is the partly matched block.
    rows, place = np.unique(segments.row[counted], return_index=True)
    last = segments.first[k][counted[place]] + (segments.count[k][counted[place]] - 1) * grid.unit_blocks
    keep = inside[rows]
    rows, last = rows[keep], last[keep]
    whole = 0 if _whole_symbol(profile) else -1
    return (
        np.concatenate((rows, beyond)),
        np.concatenate((last, segments.deepest[k][beyond] + 1)),
        np.concatenate((rest[rows] - block, rest[beyond])),
        np.concatenate((np.full(len(rows), whole, np.int64), np.zeros(len(beyond), np.int64))),
    )


def _in_table(distances: ReuseDistances, rows: Int64, lineage: Lineage) -> ReuseDistances:
    """The same with rows of the whole table."""
    if len(rows) == len(lineage):
        return distances
    return dataclasses.replace(
        distances,
        lineage=lineage,
        row=rows[distances.row],
        owner=rows[distances.owner],
        extra_row=rows[distances.extra_row],
    )


def _joined(parts: list[ReuseDistances], profile: EngineProfile, model: CurveModel, lineage: Lineage) -> ReuseDistances:
    if len(parts) == 1:
        return parts[0]
    columns = ("row", "owner", "first", "count", "extra_row", "extra_distance", "extra_tokens", "extra_blocks")
    joined = {
        name: np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)]).astype(np.int64)
        for name in columns
    }
    return ReuseDistances(
        profile=profile,
        model=parts[0].model if parts else model,
        lineage=lineage,
        unit_blocks=_grid(profile, model).unit_blocks,
        steps=sum(part.steps for part in parts),
        **joined,
    )
