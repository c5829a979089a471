"""Odd bodies are compared or left out, never a failure."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from prefixscope.engines import wire_sglang, wire_vllm
from prefixscope.engines.events.decode import batches_from_lines
from prefixscope.errors import FormatError, PrefixscopeError
from tests.breaks.situations import WITH_IDS, all_situations
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


@pytest.mark.parametrize("text", ["[" * 50_000, "[ " * 20_000, "<think>" * 30_000, "[" * 40_000 + "]" * 40_000])
@pytest.mark.parametrize("place", ["user", "tool", "system", "arguments"])
def test_texts_that_open_without_end(text: str, place: str, tmp_path: Path) -> None:
    """Neither a recursion nor a search from every opening to the end."""

    def request(content: str) -> dict[str, Any]:
        if place == "arguments":
            function = {"name": "find", "arguments": content}
            calls = [{"id": "c", "type": "function", "function": function}]
            turn = [{"role": "assistant", "content": "", "tool_calls": calls}]
        else:
            turn = [{"role": place, "content": content}]
        return {
            "session_id": "s",
            "messages": [*turn, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "and?"}],
        }

    before = time.process_time()
    rows = of_requests(tmp_path, [request(text), request(text[:-1] + "x")], WITH_IDS)
    assert len(rows) == 2 and time.process_time() - before < 20


def test_arguments_nested_too_deeply_are_no_json() -> None:
    deep = "[" * 50_000
    assert wire_vllm._arguments(deep) == {}
    with pytest.raises(ValueError, match="valid JSON"):
        wire_sglang._tool_call(0, "assistant", {"id": "c", "function": {"name": "f", "arguments": deep}})
    with pytest.raises(FormatError):
        list(batches_from_lines([deep.encode()], "events.jsonl"))
