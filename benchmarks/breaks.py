"""Measures what looking for prefix breaks costs: indexing with it over indexing without, alternating, in processes
of their own.

    python benchmarks/breaks.py [--tokenizer FOLDER] [--requests 3000] [--tokens 1500] [--rounds 5] [--log NAME ...]
    python benchmarks/breaks.py --write million.jsonl --log short --requests 1000000
    python benchmarks/breaks.py --file million.jsonl --rounds 1

Logs are made here, seeded; `--file` takes one that exists, `--write` only makes one. What is compared is CPU time (user
and system, all threads) without imports, loading the tokenizer and building the fast one; the ratio of whole processes
is printed beside it. The steps that every log may use before comparing has a budget weigh much in logs of some thousand
requests and little in long ones: the last two columns are of a third run without them. Everything in the logs is
invented.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import generate  # noqa: E402
from text import Writer  # noqa: E402

SHARING = 0.8
SHORT_SESSION = 4
SHORT_SESSIONS = 256
HASH_UNIT = 16
Row = dict[str, Any]


def sessions(count: int, tokens: int, seed: int) -> Iterator[Row]:
    """Chats with a history that grows: nothing breaks."""
    yield from generate.requests(count, tokens, SHARING, seed)


def _without_sessions(rows: Iterator[Row]) -> Iterator[Row]:
    for row in rows:
        del row["session_id"]
        yield row


def _clock(number: int) -> str:
    return f"Current time: 2026-06-{1 + number // 86400 % 28:02}T{number // 3600 % 24:02}:{number // 60 % 60:02}:" \
           f"{number % 60:02}Z, request {number}.\n"  # fmt: skip


def clock(count: int, tokens: int, seed: int) -> Iterator[Row]:
    """The same behind a clock and a counter: every prompt breaks in its first line."""
    for number, row in enumerate(sessions(count, tokens, seed)):
        first, *rest = row["messages"]
        yield {**row, "messages": [{**first, "content": _clock(number) + first["content"]}, *rest]}


def clock_without_sessions(count: int, tokens: int, seed: int) -> Iterator[Row]:
    """The same without session ids: what to compare with has to be looked for."""
    yield from _without_sessions(clock(count, tokens, seed))


def tools(count: int, tokens: int, seed: int) -> Iterator[Row]:
    """Every prompt begins with the same tools in another order."""
    writer = Writer(random.Random(seed))
    kit = [writer.tool() for _ in range(12)]
    for row in sessions(count, tokens, seed):
        writer.draw.shuffle(kit)
        yield {**row, "tools": list(kit)}


def unique(count: int, tokens: int, seed: int) -> Iterator[Row]:
    """Prompts that have nothing in common, without sessions."""
    yield from _without_sessions(generate.requests(count, tokens, 0.0, seed))


def edited(count: int, tokens: int, seed: int) -> Iterator[Row]:
    """Every prompt is the text before with words exchanged all over, and no two of them agree for long."""
    draw = random.Random(seed)
    writer = Writer(draw)
    words = writer.text(int(tokens * generate.CHARACTERS_PER_TOKEN)).split(" ")
    for number in range(count):
        for place in draw.sample(range(len(words)), max(1, len(words) // 40)):
            words[place] = writer.word()
        yield _row(number, f"s{number % 4}") | {
            "model": "chat",
            "messages": [{"role": "system", "content": " ".join(words)}, {"role": "user", "content": writer.text(200)}],
        }


def completions(count: int, tokens: int, seed: int) -> Iterator[Row]:
    """Text prompts behind a clock, no messages."""
    for row in clock(count, tokens, seed):
        text = "\n".join(f"{message['role']}: {message['content']}" for message in row["messages"])
        yield {key: row[key] for key in ("request_id", "timestamp", "session_id")} | {"model": "chat", "prompt": text}


def token_ids(count: int, tokens: int, seed: int) -> Iterator[Row]:
    """Rows of token ids, sessions that grow behind a header that differs in every request."""
    yield from _symbols(count, tokens, seed, "prompt", 120_000)


def hashes(count: int, tokens: int, seed: int) -> Iterator[Row]:
    """Rows of block hashes behind a shared beginning."""
    for row in _symbols(count, max(tokens // HASH_UNIT, 4), seed, "hash_ids", 1 << 40):
        length = len(row["hash_ids"]) * HASH_UNIT
        yield {"timestamp": row["timestamp"], "input_length": length, "output_length": 1, "hash_ids": row["hash_ids"]}


def _symbols(count: int, length: int, seed: int, field: str, alphabet: int) -> Iterator[Row]:
    draw = random.Random(seed)
    head = [draw.randrange(alphabet) for _ in range(length // 2)]
    turn = max(length // 8, 1)
    histories: list[list[int]] = [[] for _ in range(generate.LIVE_SESSIONS)]
    for number in range(count):
        place = draw.randrange(len(histories))
        if len(histories[place]) >= length:
            histories[place] = []
        histories[place] = [*histories[place], *(draw.randrange(alphabet) for _ in range(turn))]
        header = [draw.randrange(alphabet), number % alphabet] if field == "prompt" else []
        yield _row(number, f"s{place}") | {"model": "chat", field: [*head[:3], *header, *head[3:], *histories[place]]}


def _row(number: int, session: str) -> Row:
    return {"request_id": f"r{number}", "timestamp": generate.START_S + number * 0.25, "session_id": session}


def short(count: int, tokens: int, seed: int) -> Iterator[Row]:
    """Short chats of a few turns behind a shared header with a clock; `tokens` is not looked at: about 150 each."""
    writer = Writer(random.Random(seed))
    header = writer.text(160)
    live: list[tuple[str, list[Row]]] = []
    for number in range(count):
        if len(live) < SHORT_SESSIONS:
            live.append((f"s{number}", []))
        place = writer.draw.randrange(len(live))
        session, messages = live[place]
        if messages:
            messages.append({"role": "assistant", "content": _words(writer, 8)})
        messages.append({"role": "user", "content": _words(writer, 10)})
        system = {"role": "system", "content": _clock(number) + header}
        yield _row(number, session) | {"model": "chat", "messages": [system, *messages]}
        if len(messages) >= 2 * SHORT_SESSION:
            live.pop(place)


def _words(writer: Writer, count: int) -> str:
    return " ".join(writer.word() for _ in range(count))


LOGS: dict[str, Callable[[int, int, int], Iterator[Row]]] = {
    "sessions": sessions,
    "clock": clock,
    "clock-no-sessions": clock_without_sessions,
    "tools": tools,
    "unique": unique,
    "edited": edited,
    "completions": completions,
    "token-ids": token_ids,
    "hashes": hashes,
    "short": short,
}


def write(path: str, name: str, requests: int, tokens: int, seed: int) -> None:
    """One log as JSON lines."""
    with open(path, "wb") as file:
        for row in LOGS[name](requests, tokens, seed):
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def measure(log: str, tokenizer: str, with_breaks: bool, workers: int, free: bool) -> dict[str, Any]:
    """One run in this process; without the `free` steps the budget counts from the first request on."""
    from contenders import StartUp

    from prefixscope.breaks import effort
    from prefixscope.ingest import IngestOptions, ingest, model_table
    from prefixscope.logs import LogFile, ReadOptions

    if not free:
        effort._FREE = 0
    start_up = StartUp()
    table = model_table([f"*={tokenizer}"], None)
    options = IngestOptions(ReadOptions(), table, render="transformers", breaks=with_breaks, workers=workers)
    before = _cpu_s()
    ingested = ingest([LogFile(log)], options, lambda _: None)
    lineage = ingested.lineage
    found: dict[str, Any] = {} if lineage.breaks is None else _told(lineage.breaks)
    return found | {
        "requests": len(lineage),
        "tokens": int(lineage.prompt_tokens.sum()),
        "work_s": _cpu_s() - before - start_up.cpu_s,
        "whole_s": _cpu_s(),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _told(columns: Any) -> dict[str, Any]:
    causes = [columns.cause[row] for row in range(len(columns.cause))]
    return {
        "causes": {cause: causes.count(cause) for cause in sorted(set(causes))},
        "lost_tokens": int(columns.lost_tokens.sum()),
    }


def _cpu_s() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def measured(log: str, tokenizer: str, with_breaks: bool, workers: int, free: bool = True) -> dict[str, Any]:
    """The same in a process of its own."""
    switches = [*(["--with"] if with_breaks else []), *([] if free else ["--no-free-steps"])]
    arguments = ("--measure", log, "--tokenizer", tokenizer, "--workers", workers, *switches)
    command = [sys.executable, str(Path(__file__).resolve()), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def compared(name: str, log: str, asked: argparse.Namespace) -> dict[str, float]:
    """Medians of both, and of their ratio."""
    rounds = []
    for _ in range(asked.rounds):
        without, found = (measured(log, asked.tokenizer, on, asked.workers) for on in (False, True))
        long = measured(log, asked.tokenizer, True, asked.workers, free=False)
        rounds.append(
            {
                "requests": without["requests"],
                "tokens/request": without["tokens"] / without["requests"],
                "without us/request": 1e6 * without["work_s"] / without["requests"],
                "with us/request": 1e6 * found["work_s"] / found["requests"],
                "ratio": found["work_s"] / without["work_s"],
                "whole ratio": found["whole_s"] / without["whole_s"],
                "without peak MB": without["peak_mb"],
                "with peak MB": found["peak_mb"],
                "not compared %": _not_compared(found),
                "long ratio": long["work_s"] / without["work_s"],
                "long not compared %": _not_compared(long),
            }
        )
    ratios = sorted(one["ratio"] for one in rounds)
    medians = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    causes = " ".join(f"{cause}={count}" for cause, count in found["causes"].items())
    print(f"{name:18} " + " ".join(f"{medians[key]:{width}.{digits}f}" for key, width, digits in COLUMNS)
          + f"  {ratios[0]:.2f}-{ratios[-1]:.2f}  lost={found['lost_tokens']} {causes}", flush=True)  # fmt: skip
    return medians


def _not_compared(found: dict[str, Any]) -> float:
    return 100.0 * float(found["causes"].get("not_compared", 0)) / float(found["requests"])


COLUMNS = (
    ("requests", 8, 0), ("tokens/request", 14, 0), ("without us/request", 18, 0), ("with us/request", 15, 0),
    ("ratio", 5, 2), ("whole ratio", 11, 2), ("without peak MB", 15, 0), ("with peak MB", 12, 0),
    ("not compared %", 14, 1), ("long ratio", 10, 2), ("long not compared %", 19, 1),
)  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--tokenizer", default=str(HERE.parent / "sample_logs" / "model"), help="folder of a tokenizer")
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--tokens", type=int, default=1500, help="mean tokens of a prompt, estimated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--log", action="append", choices=list(LOGS), help="default: all of them")
    parser.add_argument("--file", help="a log in place of generated ones")
    parser.add_argument("--write", metavar="FILE", help="write the log and stop")
    parser.add_argument("--measure", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--no-free-steps", dest="free", action="store_false", help=argparse.SUPPRESS)
    parser.add_argument("--with", dest="with_breaks", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    if asked.measure:
        print(json.dumps(measure(asked.measure, asked.tokenizer, asked.with_breaks, asked.workers, asked.free)))
        return
    names = asked.log or list(LOGS)
    if asked.write:
        write(asked.write, names[0], asked.requests, asked.tokens, asked.seed)
        return
    print(f"{'log':18} " + " ".join(f"{key:>{width}}" for key, width, _ in COLUMNS) + "  lowest-highest")
    if asked.file:
        compared(os.path.basename(asked.file), asked.file, asked)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            log = f"{folder}/{name}.jsonl"
            write(log, name, asked.requests, asked.tokens, asked.seed)
            compared(name, log, asked)
            os.unlink(log)


if __name__ == "__main__":
    main()
