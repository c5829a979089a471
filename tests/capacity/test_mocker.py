"""The pool simulator against another one: Dynamo's mock of vLLM, where `ai-dynamo-runtime` is installed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from prefixscope.capacity.pool import simulate_pool
from tests.capacity.logs import Request, chat_log, lineage_of, profile

dynamo = pytest.importorskip("dynamo._core", reason="ai-dynamo-runtime is not installed")
BLOCK = 16


@pytest.mark.parametrize("seed", range(6))
def test_every_request_reuses_the_same_tokens(seed: int, tmp_path: Path) -> None:
    log = [
        Request(request.prompt)
        for request in chat_log(random.Random(seed), 300, sessions=6, header=60, turn=50, resends=0.1)
    ]
    numbers: dict[tuple[int, ...], int] = {}
    rows = []
    for i, request in enumerate(log):
        ends = range(BLOCK, len(request.prompt) + BLOCK, BLOCK)
        ids = [numbers.setdefault(request.prompt[:end], len(numbers)) for end in ends]
        row = {"timestamp": i * 100_000, "input_length": len(request.prompt), "output_length": 1, "hash_ids": ids}
        rows.append(json.dumps(row))
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(rows) + "\n")
    longest = max(-(-len(request.prompt) // BLOCK) for request in log)
    for blocks in (longest + 2, longest + 10, longest + 30):
        arguments = {"engine": {"backend": "vllm", "block_size": BLOCK, "num_gpu_blocks": blocks}}
        result = dynamo.run_mocker_trace_replay(
            [str(trace)], trace_block_size=BLOCK, extra_engine_args=arguments, capture_per_request=True
        )
        reused = [request["reused_input_tokens"] for request in result.per_request]
        assert reused == simulate_pool(lineage_of(log), profile(BLOCK), blocks).cached_tokens.tolist()
