"""Real engine code as judge, in its own environment; tests skip with the reason where it is not here."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
JUDGE = Path(__file__).with_name("kv_manager_judge.py")


def _python(variable: str, folder: str) -> Path | None:
    home = Path(os.environ.get(variable) or ROOT / ".cache" / folder)
    python = home / "bin" / "python"
    return python if python.exists() else None


VLLM = _python("PREFIXSCOPE_ENGINE_VENV", "engine")
VLLM_033 = _python("PREFIXSCOPE_ENGINE_VENV_033", "engine-0.33")
DYNAMO = _python("PREFIXSCOPE_DYNAMO_VENV", "dynamo")

needs_vllm = pytest.mark.skipif(VLLM is None, reason="no vLLM 0.32 in PREFIXSCOPE_ENGINE_VENV or .cache/engine")
needs_vllm_033 = pytest.mark.skipif(
    VLLM_033 is None, reason="no vLLM 0.33 in PREFIXSCOPE_ENGINE_VENV_033 or .cache/engine-0.33"
)
needs_dynamo = pytest.mark.skipif(
    DYNAMO is None, reason="no ai-dynamo-runtime in PREFIXSCOPE_DYNAMO_VENV or .cache/dynamo"
)


def kv_manager(scenarios: Sequence[dict[str, Any]], python: Path | None = None) -> list[list[int]]:
    """Cached tokens of every scenario's requests, by vLLM's own KVCacheManager."""
    lines = "\n".join(json.dumps(scenario) for scenario in scenarios)
    run = subprocess.run(
        [str(python or VLLM), str(JUDGE)], input=lines, capture_output=True, text=True, timeout=300, check=False
    )
    answers = [json.loads(line[7:]) for line in run.stdout.splitlines() if line.startswith("ANSWER ")]
    assert len(answers) == len(scenarios), run.stderr[-2000:]
    return answers
