"""One measurement in a process of its own: reads a log in one of several ways and prints what it took as JSON.

    python benchmarks/contenders.py naive|ours|counted LOG TOKENIZER [REQUESTS] [WORKERS]

`naive` is json.loads, apply_chat_template and nothing else for each request. `ours` goes from the file to the index
rows. `counted` is the same with counters, which cost time. Work is told apart from start-up: loading the tokenizer and
building the fast engine are timed on their own.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")

import xxhash

SAMPLED_ONE_IN = 7


def naive(log: str, tokenizer: str, requests: int) -> dict[str, Any]:
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=False, local_files_only=True)
    digests: dict[str, str] = {}
    done = tokens = size = 0
    wall, cpu = time.perf_counter(), time.process_time()
    with open(log, "rb") as file:
        for line in file:
            body = json.loads(line)
            ids = loaded.apply_chat_template(
                body["messages"], tools=body.get("tools"), add_generation_prompt=True, return_dict=False
            )
            done, tokens, size = done + 1, tokens + len(ids), size + len(line)
            if done % SAMPLED_ONE_IN == 1:
                digests[body["request_id"]] = _digest(ids)
            if done == requests:
                break
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"requests": done, "tokens": tokens, "bytes": size, "wall_s": wall, "cpu_s": cpu, "digests": digests}


def _digest(ids: Any) -> str:
    import numpy as np

    return xxhash.xxh3_64_hexdigest(np.asarray(ids, "<u4").tobytes())


class StartUp:
    """CPU seconds that loading tokenizers and building fast engines took in this process."""

    def __init__(self) -> None:
        import prefixscope.models.encode as encode
        import prefixscope.models.prompt as prompt
        import prefixscope.models.tokenizer_cache as tokenizer_cache

        self.cpu_s = 0.0
        prompt.load_model = self._timed(prompt.load_model)
        encode._fast_engine = self._timed(encode._fast_engine)
        tokenizer_cache._backend = self._timed(tokenizer_cache._backend)

    def _timed(self, function: Any) -> Any:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                self.cpu_s += time.thread_time() - start

        return timed


def ours(log: str, tokenizer: str, workers: int) -> dict[str, Any]:
    from prefixscope.ingest import IngestOptions, ingest, model_table
    from prefixscope.logs import LogFile, ReadOptions

    start_up = StartUp()
    marks: list[tuple[int, float]] = []
    options = IngestOptions(
        ReadOptions(), model_table([f"*={tokenizer}"], None), render="transformers", workers=workers
    )
    wall, cpu = time.perf_counter(), time.process_time()
    ingested = ingest([LogFile(log)], options, lambda done: marks.append((done, time.perf_counter())))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    lineage = ingested.lineage
    assert ingested.text is not None
    built = ingested.text.built
    digests = {
        str(lineage.request_id[row]): _digest(
            memoryview(built.tree.tokens_of(built.ends[row].leaf)).cast("I")[: int(lineage.prompt_tokens[row])]
        )
        for row in range(0, len(lineage), SAMPLED_ONE_IN)
    }
    return {
        "requests": len(lineage),
        "tokens": int(lineage.prompt_tokens.sum()),
        "unique_tokens": int((lineage.sequence_tokens - lineage.shared_tokens).sum()),
        "bytes": os.path.getsize(log),
        "wall_s": wall,
        "cpu_s": cpu,
        "start_up_cpu_s": start_up.cpu_s,
        "steady_requests_per_s": _steady(marks),
        "encoders": lineage.provenance["encoders"],
        "digests": digests,
    }


def _steady(marks: list[tuple[int, float]]) -> float | None:
    """Requests per second of wall time over the second half of the log, when everything has started."""
    if len(marks) < 8:
        return None
    half = next(mark for mark in marks if mark[0] * 2 >= marks[-1][0])
    last = next(mark for mark in marks if mark[0] == marks[-1][0])
    return (last[0] - half[0]) / (last[1] - half[1]) if last[1] > half[1] else None


def counted(log: str, tokenizer: str) -> dict[str, Any]:
    """Work in numbers that do not depend on the machine."""
    import prefixscope.models.encode as encode
    import prefixscope.models.repeats as repeats
    from prefixscope.index.topology import ROOT
    from prefixscope.index.tree import PrefixTree

    counts = {"tokens_encoded": 0, "bytes_hashed": 0, "nodes_visited": 0}

    def encoding(self: Any, text: str, add_special_tokens: bool, before: Any = encode.LateEncoder.encode) -> bytes:
        ids = before(self, text, add_special_tokens)
        counts["tokens_encoded"] += len(ids) // 4
        return bytes(ids)

    def hashing(data: bytes, before: Any = repeats.xxhash.xxh3_128_digest) -> bytes:
        counts["bytes_hashed"] += len(data)
        return bytes(before(data))

    def sampling(text: str, before: Any = encode._hash) -> int:
        counts["bytes_hashed"] += len(text)
        return int(before(text))

    def descending(self: Any, node: int, tokens: bytes, before: Any = PrefixTree._descend) -> int:
        leaf = at = int(before(self, node, tokens))
        while at != ROOT:
            counts["nodes_visited"] += 1
            at = self.up[at]
        return leaf

    encode.LateEncoder.encode = encoding
    repeats.xxhash = type("Counting", (), {"xxh3_128_digest": staticmethod(hashing)})
    encode._hash = sampling
    PrefixTree._descend = descending
    result = ours(log, tokenizer, 1)
    return counts | {"requests": result["requests"]}


def main() -> None:
    kind, log, tokenizer, *more = sys.argv[1:]
    numbers = [int(number) for number in more]
    if kind == "naive":
        result = naive(log, tokenizer, numbers[0] if numbers else 0)
    elif kind == "counted":
        result = counted(log, tokenizer)
    else:
        result = ours(log, tokenizer, numbers[1] if len(numbers) > 1 else 1)
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    result |= {"peak_bytes": own.ru_maxrss << 10, "children_cpu_s": children.ru_utime + children.ru_stime}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
