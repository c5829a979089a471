"""The public Mooncake trace: known values of infinite and finite LRU caches."""

from __future__ import annotations

import json

import numpy as np
import pytest

from prefixscope.capacity.distances import reuse_distances
from prefixscope.engines.rules import whole_symbols
from prefixscope.index.lineage import Lineage
from tests.capacity.logs import profile
from tests.shared import SHARED, needs_shared


@pytest.fixture(scope="module")
def lineage() -> Lineage:
    """Ids are chained over the prefix, so the last row that had an id tells the parent."""
    last: dict[int, int] = {}
    prompt, shared, parent = [], [], []
    with open(SHARED / "traces" / "mooncake_synthetic.jsonl") as lines:
        for row, line in enumerate(lines):
            request = json.loads(line)
            ids, length = request["hash_ids"], request["input_length"]
            known = 0
            while known < len(ids) and ids[known] in last:
                known += 1
            prompt.append(length)
            shared.append(min(known * 512, length))
            parent.append(last[ids[known - 1]] if known else -1)
            last.update(dict.fromkeys(ids, row))
    return Lineage.from_lengths(prompt, shared, parent, unit=np.full(len(prompt), 512))


TRACE = profile(
    512, rule=whole_symbols, partial_reuse=True, recomputes_last_token=False, stores_output=False, unhashed_first=False
)


@needs_shared
def test_known_values(lineage: Lineage) -> None:
    (found,) = reuse_distances(lineage, [TRACE], "lru")
    curve = found.curve()
    assert curve.prompt_blocks == 121_877 and curve.prompt_tokens == 61_194_628
    assert curve.infinite_tokens == 39_852_661 and curve.infinite_blocks == 77_953
    tokens = np.round(curve.tokens_at([1000, 10_000, 30_000, 50_000, 10**7]) / curve.prompt_tokens, 4)
    assert tokens.tolist() == [0.0857, 0.4318, 0.6356, 0.6512, 0.6512]
    blocks = np.round(curve.blocks_at([1000, 10_000, 30_000]) / curve.prompt_blocks, 4)
    assert blocks.tolist() == [0.0841, 0.4239, 0.6242]
    half = found.curve(np.arange(len(lineage)) >= len(lineage) // 2)
    assert round(half.infinite_tokens / half.prompt_tokens, 4) == 0.8627


@needs_shared
def test_the_same_trace_under_an_engine_that_computes_the_last_token(lineage: Lineage) -> None:
    (found,) = reuse_distances(lineage, [profile(512)])
    assert found.curve().infinite_tokens == 39_802_880
    assert found.curve().infinite_blocks == 77_740
