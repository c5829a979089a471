"""Odd bodies are compared or left out, never a failure."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from prefixscope.errors import PrefixscopeError
from tests.breaks.situations import all_situations
from tests.breaks.told import of_requests
from tests.shared import needs_shared

ODD: list[Any] = [
    None,
    "",
    [],
    {},
    5,
    True,
    "x",
    [None],
    [{"type": "text"}],
    [{"type": "text", "text": None}],
    {"a": 1},
]


def mutated(value: Any, rng: random.Random, name: str = "") -> Any:
    if rng.random() < 0.06 and name != "type":
        return rng.choice(ODD)
    if isinstance(value, dict):
        return {key: mutated(item, rng, key) for key, item in value.items() if rng.random() > 0.03}
    if isinstance(value, list):
        return [mutated(item, rng) for item in value if rng.random() > 0.03]
    return value


@needs_shared
@pytest.mark.parametrize("seed", range(40))
def test_no_body_is_too_odd(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    _, template, requests = rng.choice(all_situations())
    rows = [row for request in requests * 2 if isinstance(row := mutated(request, rng), dict)]
    for render in ("plain", "vllm"):
        try:
            told = of_requests(tmp_path, rows, template, render)
        except PrefixscopeError:
            continue  # nothing is left, or no model: said in a sentence
        assert all(row.cause for row in told)
