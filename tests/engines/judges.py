"""Real engine code as judge, in its own environment; tests skip with the reason where it is not here."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
JUDGE = Path(__file__).with_name("kv_manager_judge.py")
MOCKER = Path(__file__).with_name("mocker_judge.py")


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


def mocked(scenario: dict[str, Any]) -> list[int]:
    """Reused tokens of every request on Dynamo's mock engine (see mocker_judge.py)."""
    run = subprocess.run(
        [str(DYNAMO), str(MOCKER)],
        input=json.dumps(scenario), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.stdout.startswith("ANSWER "), run.stderr[-2000:]
    answer: list[int] = json.loads(run.stdout[7:])
    return answer


class KvManager:
    """vLLM's own KVCacheManager in a process of its own, kept for many scenarios because importing it is slow."""

    def __init__(self, python: Path | None) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [str(python), str(JUDGE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def cached(self, scenario: dict[str, Any]) -> list[int]:
        """Cached tokens of the scenario's requests, served one after another."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(scenario) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                answer: list[int] = json.loads(line[7:])
                return answer
        self._errors.seek(0)
        raise AssertionError(self._errors.read()[-2000:])

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()
        self._errors.close()
