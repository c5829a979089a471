"""A hash trace of 8 million references from JSON to its full hit curve: seconds by stage and peak memory.

    python benchmarks/hash_trace_curve.py                        # writes the trace to a temporary folder, 4 runs
    python benchmarks/hash_trace_curve.py --references 1000000   # smaller
    python benchmarks/hash_trace_curve.py --by-row               # every row by itself, as rows that are odd are read

The trace is invented: sessions behind a few headers that come back with their history, 30 ids of 512 tokens a request
on average, as in the public Mooncake traces. Each run is a process of its own; its start and imports are told apart.
The target is CPU seconds of the whole process, user and system, so that other work on the machine weighs less.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HEADERS, HEADER_IDS, LIVE, MOST_IDS = 40, 8, 400, 70
TARGET_SECONDS, TARGET_MB = 4.0, 400.0


def rows(references: int, seed: int = 1) -> Iterator[dict[str, object]]:
    """Requests until so many ids were given out."""
    draw = random.Random(seed)
    headers = [list(range(1000 * n, 1000 * n + HEADER_IDS)) for n in range(HEADERS)]
    fresh = 1000 * HEADERS
    live = [list(draw.choice(headers)) for _ in range(LIVE)]
    given = number = 0
    while given < references:
        place = draw.randrange(LIVE)
        if len(live[place]) > MOST_IDS:
            live[place] = list(draw.choice(headers))
        new = draw.randint(1, 12)
        ids = live[place] + list(range(fresh, fresh + new))
        fresh += new
        live[place] = ids
        length = 512 * len(ids) - draw.randrange(512)
        yield {"timestamp": 40 * number, "input_length": length, "output_length": 200, "hash_ids": ids}
        given += len(ids)
        number += 1


def measure(path: str, by_row: bool) -> None:
    """In a process of its own: reads the trace, makes the curve, prints what it took."""
    import resource

    begun = time.perf_counter()
    from prefixscope import api
    from prefixscope.api.profiles import profile_of
    from prefixscope.api.reading import lineage_of
    from prefixscope.capacity.distances import reuse_distances
    from prefixscope.ingest import pipeline

    if by_row:
        pipeline.rows_may_be_columns = lambda rules: False  # type: ignore[assignment]
    imported = time.perf_counter()
    lineage = lineage_of(api.LogOptions((path,), workers=1), api.EngineChoice(), lambda *_: None).lineage
    read = time.perf_counter()
    (found,) = reuse_distances(lineage, [profile_of(lineage, lineage.pools[0], api.EngineChoice(), None)])
    curve = found.curve()
    corners = len(curve.corners())
    done = time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({
        "requests": len(lineage), "references": curve.prompt_blocks, "corners": corners,
        "token_hit_rate": round(curve.infinite_tokens / curve.prompt_tokens, 4), "import_s": round(imported - begun, 2),
        "read_s": round(read - imported, 2), "curve_s": round(done - read, 2), "all_s": round(done - begun, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2), "peak_mib": round(used.ru_maxrss / 1024),
    }))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--references", type=int, default=8_000_000)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--by-row", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.measure, asked.by_row)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows(asked.references))
        print(f"{path.stat().st_size / 2**20:.0f} MiB of JSON; targets: {TARGET_SECONDS:g} CPU s, {TARGET_MB:g} MB")
        for _ in range(asked.runs):  # the first run compiles the walk, the others find it compiled
            how = ["--by-row"] if asked.by_row else []
            subprocess.run([sys.executable, __file__, "--measure", str(path), *how], check=True)


if __name__ == "__main__":
    main()
