"""The walk that gives every request's LRU stack distances, for all block sizes at once, without visiting blocks.

The blocks whose last user is request r are always one interval (start[r], T_r] of r's own sequence: a later request
that shares a prefix takes the front of it away (`thief[r]` is the latest that did). `walk` serves the requests in
order and hands over, per request, one segment per owner it takes from. It is written once, for lists in plain Python
and for int64 arrays under the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prefixscope.capacity._compile import COMPILE_FROM_REQUESTS, compiled
from prefixscope.index.lineage import Int64

__all__ = ["Grid", "Segments", "segments_of"]


@dataclass(frozen=True, slots=True)
class Grid:
    """How one block size counts: `unit_blocks` blocks make a match unit, the first `drop_units` units do not count.

    `slot`: a partly filled last block is reused first and narrows the next look-up. `copies`: blocks that are
    computed again are stored a second time. `tail`: a partly filled last block queues like the others.
    """

    block_size: int
    unit_blocks: int = 1
    drop_units: int = 0
    slot: bool = False
    copies: bool = False
    tail: bool = False


@dataclass(frozen=True, slots=True)
class Segments:
    """What the walk found: step i took blocks of `owner[i]` for `row[i]`.

    `first[k][i]` is the stack distance of its first counted match unit under grid k, `count[k][i]` how many units
    follow each other from there, one per unit length. `deepest[k][row]` is the distance of the last whole shared block
    (or, where the deepest owner gave none, of the place before its next one); -1 where nothing is shared. `steps`
    counts owners looked at.
    """

    row: Int64
    owner: Int64
    first: tuple[Int64, ...]
    count: tuple[Int64, ...]
    deepest: tuple[Int64, ...]
    steps: int


def walk(
    parent: Any, shared: Any, total: Any, granted: Any, grids: Any, start: Any, thief: Any, tree: Any, work: Any,
    again: Any, passed: Any, stack: Any, deepest: Any, row: Any, owner: Any, first: Any, count: Any,
) -> tuple[Any, Any, Any, Any, int, int]:  # fmt: skip
    """Serves all requests in one loop, kept in one piece for the compiler.

    Returns (row, owner, first, count, found, steps), the arrays grown where needed.

    `granted[t * K + k]` are the whole blocks the engine would match in an infinite cache. `grids` holds six numbers
    per grid, `tree` K Fenwick trees over requests side by side, `work` five scratch numbers per grid. `again` counts
    blocks of r that a later request stored a second time: they stay where they were, nearer to the top than what r
    still owns. `first` and `count` keep grid after grid.
    """
    requests = len(parent)
    sizes = len(grids) // 6
    room = len(row)
    found = 0
    steps = 0
    for t in range(requests):
        limit = shared[t]
        r = parent[t]
        skipped = 0
        for k in range(sizes):
            work[k] = limit // grids[6 * k]
        while r >= 0 and limit > 0:
            steps += 1
            following = thief[r]
            begin = start[r]
            if begin < limit:
                # Those passed over point from now on at the next owner with a smaller start than theirs.
                if skipped > 0:
                    height = 1
                    stack[0] = r
                    for i in range(skipped - 1, -1, -1):
                        x = passed[i]
                        while height > 0 and start[stack[height - 1]] >= start[x]:
                            height -= 1
                        thief[x] = stack[height - 1] if height > 0 else -1
                        stack[height] = x
                        height += 1
                    skipped = 0
                if found == room:
                    row = np.concatenate((row, np.zeros_like(row)))
                    owner = np.concatenate((owner, np.zeros_like(owner)))
                    wider = np.zeros(2 * room * sizes, np.int64)
                    longer = np.zeros(2 * room * sizes, np.int64)
                    for k in range(sizes):
                        wider[2 * room * k : 2 * room * k + room] = first[room * k : room * k + room]
                        longer[2 * room * k : 2 * room * k + room] = count[room * k : room * k + room]
                    first = wider
                    count = longer
                    room *= 2
                row[found] = t
                owner[found] = r
                # Blocks more recent than all of r's: the sum over requests after r.
                for k in range(sizes):
                    work[sizes + k] = work[3 * sizes + k]
                i = r + 1
                while i > 0:
                    for k in range(sizes):
                        work[sizes + k] -= tree[i * sizes + k]
                    i -= i & -i
                moved = False
                for k in range(sizes):
                    per_unit = grids[6 * k + 1]
                    skip = grids[6 * k + 2]
                    hi = work[k]
                    lo = begin // grids[6 * k]
                    work[k] = lo
                    base = work[sizes + k] + work[4 * sizes + k] + again[r * sizes + k]
                    matched = granted[t * sizes + k]
                    if deepest[t * sizes + k] < 0:
                        deepest[t * sizes + k] = base + hi - lo
                    if per_unit == 1:
                        low = max(lo, skip)
                        high = min(hi, matched + skip)
                    else:
                        low = max(lo // per_unit, skip)
                        high = min(hi // per_unit, matched // per_unit + skip)
                    at = room * k + found
                    if high > low:
                        first[at] = base + (low + 1) * per_unit - lo
                        count[at] = high - low
                    else:
                        first[at] = 0
                        count[at] = 0
                    taken = hi - lo
                    if grids[6 * k + 4] == 1:
                        taken = min(hi, matched) - min(lo, matched)
                        again[r * sizes + k] += hi - lo - taken
                    work[2 * sizes + k] = taken
                    work[3 * sizes + k] -= taken
                    if taken > 0:
                        moved = True
                found += 1
                if moved:
                    i = r + 1
                    while i <= requests:
                        for k in range(sizes):
                            tree[i * sizes + k] -= work[2 * sizes + k]
                        i += i & -i
                start[r] = limit
                thief[r] = t
                limit = begin
            else:
                passed[skipped] = r
                skipped += 1
            r = following
        for k in range(sizes):
            blocks = total[t] // grids[6 * k]
            rest = 1 if blocks * grids[6 * k] < total[t] else 0
            work[4 * sizes + k] = rest * grids[6 * k + 3]
            blocks += rest * grids[6 * k + 5]
            work[2 * sizes + k] = blocks
            work[3 * sizes + k] += blocks
        i = t + 1
        while i <= requests:
            for k in range(sizes):
                tree[i * sizes + k] += work[2 * sizes + k]
            i += i & -i
    return row, owner, first, count, found, steps


def segments_of(
    parent: Int64, shared: Int64, total: Int64, granted_blocks: Sequence[Int64], grids: Sequence[Grid],
    compile_from: int = COMPILE_FROM_REQUESTS,
) -> Segments:  # fmt: skip
    """Runs the walk over one pool's requests in time order.

    `shared` and `total` are tokens; `granted_blocks[k]` counts, per request, the leading blocks of grid k that an
    infinite cache would give. Compiled from `compile_from` requests on, the same source in plain Python below.
    """
    requests, sizes = len(parent), len(grids)
    granted = np.stack([np.asarray(column, np.int64) for column in granted_blocks], axis=1).reshape(-1)
    numbers = [(g.block_size, g.unit_blocks, g.drop_units, g.slot, g.copies, g.tail) for g in grids]
    rules = np.array(numbers, np.int64).reshape(-1)
    room = max(3 * requests, 16)
    lengths = [requests, requests, (requests + 1) * sizes, 5 * sizes, requests * sizes, requests + 1, requests + 1]
    state = [np.zeros(length, np.int64) for length in lengths]
    state[1][:] = -1
    deepest = np.full(requests * sizes, -1, np.int64)
    arguments = [parent, shared, total, granted, rules, *state, deepest]
    arguments += [np.zeros(length, np.int64) for length in (room, room, room * sizes, room * sizes)]
    if requests >= compile_from:
        row, owner, first, count, found, steps = compiled(walk)(*arguments)
    else:
        # Lists are several times faster than arrays when the interpreter reads them one number at a time.
        lists = [column.tolist() for column in arguments]
        row, owner, first, count, found, steps = walk(*lists)
        deepest = np.array(lists[len(state) + 5], np.int64)
    room = len(row)
    by_grid = deepest.reshape(requests, sizes)
    return Segments(
        row=np.asarray(row[:found], np.int64),
        owner=np.asarray(owner[:found], np.int64),
        first=tuple(np.asarray(first[room * k : room * k + found], np.int64) for k in range(sizes)),
        count=tuple(np.asarray(count[room * k : room * k + found], np.int64) for k in range(sizes)),
        deepest=tuple(np.ascontiguousarray(by_grid[:, k]) for k in range(sizes)),
        steps=int(steps),
    )
