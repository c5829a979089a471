"""Small replay workloads, and a short way to run one against a mock endpoint."""

from __future__ import annotations

import random
from typing import Any

import httpx

from prefixscope.replay.connection import ClientLimits
from prefixscope.replay.item import ReplayItem, tokens_of
from prefixscope.replay.mock import render_bytes
from prefixscope.replay.options import ReplayOptions
from prefixscope.replay.run import replay
from prefixscope.results.replay import PhaseReport, ReplayReport

URL = "http://engine.test:8000/v1"
QUICK = ClientLimits(backoff_s=0.001, longest_backoff_s=0.002, first_token_s=5, stall_s=5)


def item_of(row: int, ids: list[int], model: str = "mock", **fields: Any) -> ReplayItem:
    return ReplayItem(row, "tokens", {}, tokens_of(ids), model, time_ns=row * 10_000_000, **fields)


def families(
    count: int, seed: int = 0, model: str = "mock", longest: int = 900, vocabulary: int = 2000
) -> list[ReplayItem]:
    """Prompts that often begin like an earlier one, cut anywhere, as in conversations and retries."""
    chance = random.Random(seed)
    earlier: list[list[int]] = []
    for _ in range(count):
        base = chance.choice(earlier[-30:])[: chance.randrange(1, 500)] if earlier and chance.random() < 0.7 else []
        earlier.append((base + [chance.randrange(3, vocabulary) for _ in range(chance.randrange(1, 150))])[:longest])
    return [item_of(row, ids, model, output_tokens=chance.randrange(1, 30)) for row, ids in enumerate(earlier)]


def chats(count: int, model: str = "mock", tools: bool = False) -> list[ReplayItem]:
    """Growing conversations of three users behind one system prompt, as the mock endpoint renders them."""
    histories: dict[int, list[dict[str, str]]] = {}
    items = []
    for row in range(count):
        turns = histories.setdefault(row % 3, [{"role": "system", "content": "Answer in one sentence. " * 5}])
        turns.append({"role": "user", "content": f"question {row} of user {row % 3}, please"})
        body: dict[str, Any] = {"model": "logged-name", "messages": list(turns)}
        if tools:
            body["tools"] = [{"type": "function", "function": {"name": "search"}}]
        items.append(ReplayItem(row, "chat", body, tokens_of(render_bytes(body)), model))
        turns.append({"role": "assistant", "content": f"answer {row}"})
    return items


def run(items: list[ReplayItem], endpoint: httpx.AsyncBaseTransport, **options: Any) -> ReplayReport:
    settings: dict[str, Any] = {"phases": ("serial",), "limits": QUICK, **options}
    return replay(items, ReplayOptions(URL, **settings), transport=endpoint)


def phase_of(report: ReplayReport, name: str) -> PhaseReport:
    return next(phase for phase in report.phases if phase.phase == name)
