"""One whole hit curve against one per-block LRU run, and the curve's own costs, in one process.

    python benchmarks/capacity_curve.py            # everything, about a minute
    python benchmarks/capacity_curve.py --small    # 100,000 requests, for a quick look

Prints medians of several runs and ratios; the first, compiling run is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from prefixscope.capacity.distances import reuse_distances
from prefixscope.engines.profile import EngineProfile
from prefixscope.engines.rules import full_units
from prefixscope.index.lineage import Lineage

HEADER, FIRST_TURN, NEXT_TURN = 1024, 2048, 900
SIZES = (8, 16, 32, 48, 64, 128, 256, 512)


def engine(block_size: int) -> EngineProfile:
    return EngineProfile("benchmark", "", block_size, block_size, full_units)


def chats(requests: int, *, active: int = 64, turns: int = 11, seed: int = 1) -> Lineage:
    """A few sessions at a time behind one header, each coming back at random until it ends: the friendly input."""
    pick = np.random.default_rng(seed).integers(0, active, requests).tolist()
    last, turn = [-1] * active, [0] * active
    parent, shared, prompt = [], [], []
    for row, session in enumerate(pick):
        k = turn[session]
        parent.append(last[session] if k else row - 1)
        shared.append(FIRST_TURN + NEXT_TURN * (k - 1) if k else HEADER if row else 0)
        prompt.append(FIRST_TURN + NEXT_TURN * k)
        last[session], turn[session] = row, (k + 1) % turns
    return Lineage.from_lengths(prompt, shared, parent)


def round_robin(requests: int, sessions: int) -> Lineage:
    """All sessions behind one header come back in turn: the input that makes a walk without compression quadratic."""
    rows = np.arange(requests)
    turn = rows // sessions
    parent = np.where(turn > 0, rows - sessions, rows - 1)
    shared = np.where(turn > 0, FIRST_TURN + NEXT_TURN * (turn - 1), np.where(rows > 0, HEADER, 0))
    return Lineage.from_lengths((FIRST_TURN + NEXT_TURN * turn).tolist(), shared.tolist(), parent.tolist())


def median_seconds(run: Callable[[], object], times: int = 5) -> float:
    run()
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def curves(lineage: Lineage, sizes: Sequence[int]) -> list[int]:
    """Whole curves, each asked at one capacity."""
    found = reuse_distances(lineage, [engine(size) for size in sizes], "lru", compile_from=0)
    return [int(one.curve().tokens_at(20_000)) for one in found]


def per_block_lru(paths: list[list[int]], prompts: list[int], block: int, capacity: int) -> int:
    """Cached tokens of a plain LRU at one capacity, every block touched: what the curve replaces."""
    cache: OrderedDict[int, None] = OrderedDict()
    cached = 0
    for path, prompt in zip(paths, prompts, strict=True):
        most = (prompt - 1) // block
        hit = 0
        while hit < most and path[hit] in cache:
            hit += 1
        cached += hit * block
        for key in reversed(path):
            cache[key] = None
            cache.move_to_end(key)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return cached


def block_paths(lineage: Lineage, block: int) -> list[list[int]]:
    """Per request the numbers of its blocks."""
    paths: list[list[int]] = []
    fresh = 0
    columns = (lineage.parent_row, lineage.shared_tokens, lineage.sequence_tokens)
    for parent, shared, total in zip(*(column.tolist() for column in columns), strict=True):
        path = paths[parent][: shared // block] if parent >= 0 else []
        new = total // block - len(path)
        paths.append(path + list(range(fresh, fresh + new)))
        fresh += new
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a tenth of the requests")
    requests = 100_000 if parser.parse_args().small else 1_000_000

    some = chats(8_000)
    paths, prompts = block_paths(some, 16), some.prompt_tokens.tolist()
    blocks = sum(map(len, paths))
    assert per_block_lru(paths, prompts, 16, 20_000) == curves(some, [16])[0]
    walked = median_seconds(lambda: per_block_lru(paths, prompts, 16, 20_000), 3)
    whole = median_seconds(lambda: curves(some, [16]))
    print(f"{len(some):,} requests, {blocks:,} blocks: per-block LRU at one capacity {walked:.3f} s "
          f"({blocks / walked / 1e6:.1f} M blocks/s), whole curve {whole:.4f} s: {walked / whole:.0f} x")  # fmt: skip

    friendly = chats(requests)
    one = median_seconds(lambda: curves(friendly, [16]))
    eight = median_seconds(lambda: curves(friendly, SIZES), 3)
    print(f"{requests:,} requests, {int(friendly.sequence_tokens.sum()) // 16 / 1e6:.0f} M blocks of 16: "
          f"one size {one:.3f} s, eight sizes {eight:.3f} s ({eight / one:.1f} x)")  # fmt: skip
    robin = round_robin(requests, requests // 10)
    worst = median_seconds(lambda: curves(robin, [16]))
    steps = reuse_distances(robin, [engine(16)])[0].steps / requests
    print(f"round robin over {requests // 10:,} sessions: {worst:.3f} s ({worst / one:.1f} x), "
          f"{steps:.1f} steps per request")  # fmt: skip


if __name__ == "__main__":
    main()
