"""Random request logs as token lists, and their lineage by brute force."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import Lineage


@dataclass(frozen=True)
class Request:
    prompt: tuple[int, ...]
    output: tuple[int, ...] = ()
    namespace: int = 0
    pool: int = 0
    reads: bool = True

    @property
    def sequence(self) -> tuple[int, ...]:
        """The prompt and the generated tokens without the last one."""
        return self.prompt + self.output[:-1]


def common(a: Sequence[int], b: Sequence[int]) -> int:
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n


def lineage_of(log: Sequence[Request], **columns: Any) -> Lineage:
    shared, shared_prompt, parents = [], [], []
    for t, request in enumerate(log):
        best, best_prompt, parent = 0, 0, -1
        for r in range(t - 1, -1, -1):
            if log[r].namespace != request.namespace:
                continue
            n = common(request.sequence, log[r].sequence)
            if n > best:
                best, parent = n, r
            best_prompt = max(best_prompt, common(request.sequence, log[r].prompt))
        shared.append(best)
        shared_prompt.append(best_prompt)
        parents.append(parent)
    pools = [r.pool for r in log]
    return Lineage.from_lengths(
        [len(r.prompt) for r in log],
        shared,
        parents,
        sequence_tokens=[len(r.sequence) for r in log],
        shared_prompt_tokens=shared_prompt,
        namespace=np.array([r.namespace for r in log], np.int64),
        pool=np.array(pools, np.int64),
        pools=tuple(str(p) for p in range(max(pools, default=0) + 1)),
        reads_cache=np.array([r.reads for r in log], np.bool_),
        output=np.full(len(log), 3, np.int64),
        **columns,
    )


def random_log(rng: random.Random, requests: int, *, longest: int = 40, namespaces: int = 3, pools: int = 1,
               non_readers: float = 0.05) -> list[Request]:  # fmt: skip
    """Any mixture: branches, resends, continued answers, few different tokens so that prefixes meet by chance."""
    log: list[Request] = []
    for _ in range(requests):
        namespace = rng.randrange(namespaces)
        kind = rng.random()
        earlier = [r for r in log if r.namespace == namespace]
        if earlier and kind < 0.75:
            past = rng.choice(earlier[-12:] if kind < 0.5 else earlier)
            base = past.sequence if rng.random() < 0.6 else past.sequence[: rng.randrange(len(past.sequence) + 1)]
        else:
            base = ()
        new = tuple(rng.randrange(3) for _ in range(rng.choice((0, 1, 3, 8, rng.randrange(longest)))))
        prompt = (base + new)[: 3 * longest] or (0,)
        output = tuple(rng.randrange(3) for _ in range(rng.choice((0, 0, 1, 4, 9))))
        log.append(Request(prompt, output, namespace, namespace % pools, rng.random() >= non_readers))
    return log


def chat_log(rng: random.Random, requests: int, *, sessions: int = 8, header: int = 20, resends: float = 0.1,
             turn: int = 14) -> list[Request]:  # fmt: skip
    """Sessions behind one header that come back with their whole history; some requests are sent twice."""
    start = tuple(rng.randrange(1000) for _ in range(header))
    history = [start for _ in range(sessions)]
    log: list[Request] = []
    for _ in range(requests):
        if log and rng.random() < resends:
            past = rng.choice(log[-2 * sessions :])
            log.append(Request(past.prompt, tuple(rng.randrange(1000) for _ in range(1 + rng.randrange(8)))))
            continue
        s = rng.randrange(sessions)
        if len(history[s]) > header + 8 * turn:
            history[s] = start
        prompt = history[s] + tuple(rng.randrange(1000) for _ in range(1 + rng.randrange(turn)))
        output = tuple(rng.randrange(1000) for _ in range(1 + rng.randrange(turn)))
        log.append(Request(prompt, output))
        history[s] = prompt + output
    return log


def full_units(lineage: Lineage, profile: EngineProfile) -> np.ndarray:
    found = lineage.shared_tokens if profile.stores_output else lineage.shared_prompt_tokens
    unit = profile.match_unit
    cached = np.maximum(np.minimum(found, lineage.prompt_tokens - 1), 0) // unit * unit - profile.drop_units * unit
    return np.where(lineage.reads_cache, np.maximum(cached, 0), 0)


def profile(block_size: int, *, unit: int | None = None, drop: int = 0, **fields: Any) -> EngineProfile:
    fields.setdefault("rule", full_units)
    return EngineProfile(
        name="test", version="1", block_size=block_size, match_unit=unit or block_size, drop_units=drop, **fields
    )
