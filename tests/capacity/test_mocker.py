"""The pool simulator against another one: Dynamo's mock of vLLM, in an environment of its own."""

from __future__ import annotations

import random

import pytest

from prefixscope.capacity.pool import simulate_pool
from tests.capacity.logs import Request, chat_log, lineage_of, profile
from tests.engines.judges import mocked, needs_dynamo

BLOCK = 16


@needs_dynamo
@pytest.mark.parametrize("seed", range(6))
def test_every_request_reuses_the_same_tokens(seed: int) -> None:
    log = [
        Request(request.prompt)
        for request in chat_log(random.Random(seed), 300, sessions=6, header=60, turn=50, resends=0.1)
    ]
    numbers: dict[tuple[int, ...], int] = {}
    rows = []
    for request in log:
        ends = range(BLOCK, len(request.prompt) + BLOCK, BLOCK)
        ids = [numbers.setdefault(request.prompt[:end], len(numbers)) for end in ends]
        rows.append({"input_length": len(request.prompt), "hash_ids": ids})
    longest = max(-(-len(request.prompt) // BLOCK) for request in log)
    for blocks in (longest + 2, longest + 10, longest + 30):
        scenario = {"backend": "vllm", "block_size": BLOCK, "requests": rows, "blocks": blocks}
        assert mocked(scenario) == simulate_pool(lineage_of(log), profile(BLOCK), blocks).cached_tokens.tolist()
