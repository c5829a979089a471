"""Runs under ai-dynamo-runtime's python: its mock engines replay a trace of hash ids, one request after another.

Reads {"backend", "block_size", "requests": [{"input_length", "hash_ids"}], "blocks" (optional)} from stdin, writes the
reused input tokens of every request as one JSON list.
"""

import json
import sys
import tempfile
from pathlib import Path

from dynamo._core import run_mocker_trace_replay

scenario = json.load(sys.stdin)
block = scenario["block_size"]
with tempfile.TemporaryDirectory() as folder:
    trace = Path(folder) / "trace.jsonl"
    rows = [
        {"timestamp": 60_000 * number, "output_length": 1, **request}
        for number, request in enumerate(scenario["requests"])
    ]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run_mocker_trace_replay(
        [str(trace)],
        trace_block_size=block,
        extra_engine_args={
            "engine": {
                "backend": scenario["backend"],
                "block_size": block,
                "num_gpu_blocks": scenario.get("blocks", 1 << 16),
            }
        },
        capture_per_request=True,
    )
served = sorted(result.per_request, key=lambda row: row["arrival_time_ms"])
print("ANSWER " + json.dumps([row["reused_input_tokens"] for row in served]))
