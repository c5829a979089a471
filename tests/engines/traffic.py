"""Small requests for engine tests: lineages from token lists, and random multi-turn traffic."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prefixscope.index.lineage import Lineage
from prefixscope.index.tree import PrefixTree


@dataclass
class Asked:
    """One request: prompt ids, generated ids, what separates it, and whether it may read the cache."""

    prompt: list[int]
    output: list[int] = field(default_factory=list)
    space: Any = ""
    reads: bool = True

    @property
    def sequence(self) -> list[int]:
        """Tokens whose KV exists: all but the last sampled one."""
        return self.prompt + self.output[:-1]


def lineage_of(requests: Sequence[Asked], **columns: Any) -> Lineage:
    """The lineage of requests in the order given."""
    tree = PrefixTree()
    ends = [tree.insert(repr(r.space), array("I", r.sequence).tobytes(), len(r.prompt)) for r in requests]
    stamps = tree.stamp(ends)
    spaces = {repr(r.space): None for r in requests}
    columns.setdefault("reads_cache", np.array([r.reads for r in requests], np.bool_))
    return Lineage.from_lengths(
        [len(r.prompt) for r in requests],
        stamps.shared_tokens,
        stamps.parent_row,
        sequence_tokens=[len(r.sequence) for r in requests],
        shared_prompt_tokens=stamps.shared_prompt_tokens,
        output_tokens=np.array([len(r.output) for r in requests], np.int64),
        namespace=np.array([list(spaces).index(repr(r.space)) for r in requests], np.int64),
        namespaces=tuple(spaces),
        **columns,
    )


def conversations(seed: int, count: int, longest: int = 120, aligned_to: int = 16, skips: float = 0.0) -> list[Asked]:
    """Random traffic: fresh prompts, resends, next turns (output known or cut), siblings that diverge anywhere."""
    draw = random.Random(seed)
    requests: list[Asked] = []
    fresh = iter(range(10**6, 10**9))

    def new(tokens: int) -> list[int]:
        return [next(fresh) for _ in range(tokens)]

    for _ in range(count):
        old = draw.choice(requests) if requests else Asked(new(40))
        kind = draw.random()
        if kind < 0.15:
            prompt = new(draw.randrange(1, longest))
        elif kind < 0.3:
            prompt = list(old.prompt)
        elif kind < 0.6:
            prompt = old.prompt + old.output + new(draw.randrange(0, 40))
        elif kind < 0.8:
            prompt = old.prompt + new(draw.randrange(0, 40))
        else:
            prompt = old.sequence[: draw.randrange(0, len(old.sequence) + 1)] + new(draw.randrange(1, longest))
        if draw.random() < 0.3:
            prompt = prompt[: max(len(prompt) // aligned_to * aligned_to, 1)]
        output = new(draw.choice([0, 1, 2, draw.randrange(0, 60)]))
        requests.append(Asked(prompt, output, reads=draw.random() >= skips))
    return requests
