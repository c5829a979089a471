"""Measures reading, rendering and encoding beside the naive way: ratios of medians, alternating, in separate processes.

    python benchmarks/ingest.py --tokenizer FOLDER [--requests 4000 --tokens 8000 --sharing 0.8] [--rounds 5]

Each round runs, in turn, the naive way on the first `--naive` requests, prefixscope with one worker and with two on
all of them, and a pair of spinning processes that shows how far the machine scales at that moment. The log is made by
generate.py; `--log` takes one that exists. Token ids of a sample must be equal, or nothing is printed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402

SPIN = 20_000_000


def measured(*arguments: object) -> dict[str, Any]:
    """One run of contenders.py."""
    command = [sys.executable, str(HERE / "contenders.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def spin(_: int = 0) -> float:
    """Wall seconds of a loop."""
    start = time.perf_counter()
    number = SPIN
    while number:
        number -= 1
    return time.perf_counter() - start


def scaling() -> float:
    """How much faster two processes get the same work done than one: 2 on an idle machine with two cores."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(abs, [1, 2])
        alone = pool.apply(spin)
        start = time.perf_counter()
        pool.map(spin, [0, 1], chunksize=1)
        return 2 * alone / (time.perf_counter() - start)


def check(naive: dict[str, Any], ours: dict[str, Any]) -> int:
    """The number of prompts whose ids were compared."""
    both = naive["digests"].keys() & ours["digests"].keys()
    different = [name for name in both if naive["digests"][name] != ours["digests"][name]]
    if different or not both:
        raise SystemExit(f"token ids differ in {len(different)} of {len(both)} prompts: {different[:5]}")
    return len(both)


def work_us(result: dict[str, Any]) -> float:
    """CPU microseconds a request, without start-up."""
    return 1e6 * (result["cpu_s"] - result.get("start_up_cpu_s", 0.0)) / float(result["requests"])


def tokens_each(result: dict[str, Any]) -> float:
    """Mean prompt tokens of a request: the naive way is measured on the first requests only."""
    return float(result["tokens"]) / float(result["requests"])


def one_round(log: str, tokenizer: str, naive_requests: int, two: bool) -> dict[str, float]:
    naive = measured("naive", log, tokenizer, naive_requests)
    alone = measured("ours", log, tokenizer, 0, 1)
    found = {
        "ids compared": check(naive, alone),
        "requests": alone["requests"],
        "naive us/request": work_us(naive),
        "one us/request": work_us(alone),
        "ratio": work_us(naive) / work_us(alone) * tokens_each(alone) / tokens_each(naive),
        "one requests/s": 1e6 / work_us(alone),
        "one Mtok/s": tokens_each(alone) / work_us(alone),
        "one MB/s": alone["bytes"] / alone["requests"] / work_us(alone),
        "one start-up s": alone["start_up_cpu_s"],
        "one whole wall s": alone["wall_s"],
        "one peak MB": alone["peak_bytes"] / 1e6,
        "unique Mtok": alone["unique_tokens"] / 1e6,
    }  # fmt: skip
    if two:
        both = measured("ours", log, tokenizer, 0, 2)
        check(naive, both)
        found["two whole wall s"] = both["wall_s"]
        found["spinning scales"] = scaling()
        if both["steady_requests_per_s"] and alone["steady_requests_per_s"]:
            found["two / one, steady wall"] = both["steady_requests_per_s"] / alone["steady_requests_per_s"]
        found["two parent peak MB"] = both["peak_bytes"] / 1e6
    return found


def memory(log: str, folder: str, asked: argparse.Namespace, medians: dict[str, float]) -> dict[str, float]:
    """Peak memory over that of a log of one request, and what it is allowed to be."""
    first = f"{folder}/first.jsonl"
    with open(log, "rb") as file:
        Path(first).write_bytes(file.readline())
    nothing = measured("ours", first, asked.tokenizer, 0, 1)["peak_bytes"]
    allowed = 5 * medians["unique Mtok"] + 450e-6 * medians["requests"] + 300
    return {"peak over an empty log's MB": medians["one peak MB"] - nothing / 1e6, "allowed MB": allowed}


def doubling(folder: str, asked: argparse.Namespace) -> dict[str, float]:
    """Work counts of the log and of its first half."""
    counts = []
    for requests in (asked.requests // 2, asked.requests):
        log = f"{folder}/count{requests}.jsonl"
        with open(log, "wb") as file:
            generate.write(file, requests, asked.tokens, asked.sharing, asked.seed)
        counts.append(measured("counted", log, asked.tokenizer))
    first, second = counts
    names = ("tokens_encoded", "bytes_hashed", "nodes_visited")
    found = {f"{name} per request": second[name] / second["requests"] for name in names}
    return found | {f"{name}, log doubled": second[name] / max(first[name], 1) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--tokenizer", required=True, help="folder with a tokenizer and a chat template")
    parser.add_argument("--log", help="a log in place of a generated one")
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--tokens", type=int, default=8000)
    parser.add_argument("--sharing", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--naive", type=int, default=150, help="requests that the naive way is measured on")
    parser.add_argument("--one", action="store_true", help="leave the run with two workers out")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = asked.log or f"{folder}/log.jsonl"
        if not asked.log:
            with open(log, "wb") as file:
                generate.write(file, asked.requests, asked.tokens, asked.sharing, asked.seed)
        rounds = []
        for number in range(asked.rounds):
            rounds.append(one_round(log, asked.tokenizer, asked.naive, not asked.one))
            print(f"round {number + 1}: {rounds[-1]['ratio']:.1f} x naive", file=sys.stderr, flush=True)
        medians = {name: statistics.median(found[name] for found in rounds if name in found) for name in rounds[0]}
        spread = sorted(found["ratio"] for found in rounds)
        medians |= memory(log, folder, asked, medians)
        if not asked.log:
            medians |= doubling(folder, asked)
    for name, value in medians.items():
        print(f"{name:32} {value:12.2f}")
    print(f"{'ratio, lowest and highest':32} {spread[0]:12.2f} {spread[-1]:8.2f}")


if __name__ == "__main__":
    main()
