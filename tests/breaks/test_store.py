"""Bodies are kept once, within a budget; what is no longer held is counted, never guessed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import prefixscope.ingest.breaks as ingest_breaks
from prefixscope.breaks.bodies import BodyStore
from prefixscope.breaks.finder import BreakFinder
from prefixscope.records import LoggedRequest, Source
from tests.breaks.situations import RULES, chat
from tests.breaks.told import CHATML, ingested, told
from tests.cases import write_log, write_models
from tests.shared import needs_shared


def request(*contents: str) -> LoggedRequest:
    messages = [{"role": "user", "content": content} for content in contents]
    return LoggedRequest(Source("log", 1), "chat", {"messages": messages})


def test_equal_beginnings_share_a_path() -> None:
    store = BodyStore()
    for contents in (("a",), ("a", "b"), ("a", "b", "c"), ("x", "b")):
        store.add(request(*contents))
    assert store.above(store.node[1]) == store.node[0] and store.above(store.node[2]) == store.node[1]
    assert store.body(3).messages[1] == store.body(1).messages[1]
    assert store.value(store.body(2).messages[2]) == {"role": "user", "content": "c"}


def test_old_pages_are_dropped_and_told() -> None:
    rng = random.Random(1)
    store = BodyStore(budget=1 << 20)
    texts = ["".join(chr(rng.randrange(32, 0x2000)) for _ in range(20_000)) for _ in range(200)]
    for text in texts:
        store.add(request(text))
    held = [store.holds(store.body(number).messages) for number in range(len(texts))]
    assert not held[0] and held[-1]
    for number, is_held in enumerate(held):
        piece = store.body(number).messages[0]
        if is_held:
            assert store.value(piece)["content"] == texts[number]
        else:
            with pytest.raises(LookupError):
                store.value(piece)


@needs_shared
def test_a_candidate_that_is_gone_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_breaks, "BreakFinder", lambda: BreakFinder(budget=1 << 18))
    rng = random.Random(2)
    noise = [
        chat("".join(chr(rng.randrange(32, 0x2000)) for _ in range(30_000)), "x", session_id=f"n{n}") for n in range(24)
    ]
    rows = [chat(f"Now 10:00. {RULES}", "a", session_id="s"), *noise, chat(f"Now 10:01. {RULES}", "b", session_id="s")]
    models = write_models(tmp_path, {"chat_template": CHATML})
    read = ingested(write_log(tmp_path / "log.jsonl", rows), models=models, render="plain")
    assert told(read)[-1].cause == "not_compared"
    assert read.breaks is not None and read.breaks.not_compared >= 1
    assert read.lineage.provenance["breaks"]["not_compared"] == read.breaks.not_compared


@needs_shared
def test_the_order_of_lines_does_not_matter(tmp_path: Path) -> None:
    rows = []
    for number in range(12):
        clock = f"Now 10:{number:02d}:00. "
        for turn in range(3):
            turns = [f"question {number}", "an answer of some length to it", f"more {number}", "and so on and on", "ok"]
            stamp = f"2026-03-30T10:{number:02d}:{turn:02d}Z"
            body = chat((clock if turn == 2 else "") + RULES, *turns[: 2 * turn + 1])
            rows.append({**body, "request_id": f"{number}-{turn}", "timestamp": stamp})
    models = write_models(tmp_path, {"chat_template": CHATML})
    found = []
    for seed in (None, 1, 2):
        shuffled = rows[:]
        if seed is not None:
            random.Random(seed).shuffle(shuffled)
        read = ingested(write_log(tmp_path / f"log{seed}.jsonl", shuffled), models=models, render="plain")
        found.append([(name, row) for name, row in zip(read.lineage.request_id.tolist(), told(read), strict=True)])
    assert found[0] == found[1] == found[2]
    assert {row.cause for _, row in found[0]} >= {"append_only", "system_variant"}
