"""A small real log for the command line tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten requests with 1,024 shared tokens and 128 of their own, and one broken line."""
    path = tmp_path_factory.mktemp("logs") / "ten.jsonl"
    lines = [
        json.dumps(
            {
                "request_id": f"r{n}",
                "timestamp": 1_795_000_000 + n,
                "model": "m",
                "prompt_token_ids": [*range(1024), *range(10_000 * (n + 1), 10_000 * (n + 1) + 128)],
            }
        )
        for n in range(10)
    ]
    path.write_text("\n".join([*lines[:5], "{broken", *lines[5:]]) + "\n")
    return path
