"""Tokens lost against the oracle: what the same log reuses when the fault never was in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.breaks.further import BOATS, DESK, FACTS, STORY
from tests.breaks.situations import TOOLS, chat
from tests.breaks.told import CHATML, Told, ingested, told
from tests.cases import write_log, write_models
from tests.shared import needs_shared

pytestmark = needs_shared
LONG = " ".join(f"Rule {number}: {fact}" for number, fact in enumerate(FACTS * 3))
Fields = Callable[[int], dict[str, Any]]

FAULTS: dict[str, tuple[str, Callable[[int], str], str]] = {
    "timestamp": (CHATML, lambda n: f"Now {8 + n:02d}:1{n}:05. {DESK}", f"Now 08:10:05. {DESK}"),
    "timestamp inside": (CHATML, lambda n: f"{DESK} Now {8 + n:02d}:1{n}:05. {LONG}", f"{DESK} Now 08:10:05. {LONG}"),
    "volatile_id": (CHATML, lambda n: f"{DESK} req 7f{n}3e{n}a9. {LONG}", f"{DESK} req 7f03e0a9. {LONG}"),
    "date": (CHATML, lambda n: f"{DESK} 2026-11-{10 + n}. {LONG}", f"{DESK} 2026-11-10. {LONG}"),
    "whitespace": (CHATML, lambda n: f"{DESK}{' ' * (1 + n % 2)}{LONG}", f"{DESK}  {LONG}"),
}
LONGEST_STRETCH = 8


def talks(head: Callable[[int], str], session: bool, fields: Fields = lambda _: {}) -> list[dict[str, Any]]:
    """Three conversations of three turns, in turn."""
    rows = []
    for turns in (1, 3, 5):
        for talk in range(3):
            story = [f"{FACTS[(talk + place) % 4]} {line}" for place, line in enumerate(STORY)]
            named = {"session_id": f"s{talk}"} if session else {}
            rows.append(chat(head(len(rows)), *story[:turns], **named, **fields(len(rows))))
    return rows


def read(folder: Path, rows: list[dict[str, Any]], template: str) -> tuple[list[int], list[Told]]:
    models = write_models(folder, {"chat_template": template})
    found = ingested(write_log(folder / "log.jsonl", rows), models=models, render="plain")
    return found.lineage.reusable_tokens.tolist(), told(found)


@pytest.mark.parametrize("session", [True, False])
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_lost_is_what_the_log_without_the_fault_reuses_more(name: str, session: bool, tmp_path: Path) -> None:
    template, head, constant = FAULTS[name]
    before, rows = read(tmp_path, talks(head, session), template)
    after, calm = read(tmp_path, talks(lambda _: constant, session), template)
    assert {row.cause for row in calm} == {"first_seen", "branched", "append_only"}
    for row, had, has in zip(rows, before, after, strict=True):
        if row.cause == name.split()[0]:
            # the stretch itself is not counted: the fix takes it out or moves it
            assert 0 <= has - had - row.lost <= LONGEST_STRETCH
        else:
            assert row.lost == 0
    lost = [row.cause == name.split()[0] for row in rows]
    assert lost.count(True) >= (4 if name == "whitespace" else 8)


@pytest.mark.parametrize("session", [True, False])
def test_tools_that_change_places_lose_exactly_that(session: bool, tmp_path: Path) -> None:
    mixed = (BOATS, BOATS[::-1], [*BOATS[2:], *BOATS[:2]])
    before, rows = read(tmp_path, talks(lambda _: DESK, session, lambda n: {"tools": mixed[n % 2 + n // 6]}), TOOLS)
    after, _ = read(tmp_path, talks(lambda _: DESK, session, lambda _: {"tools": BOATS}), TOOLS)
    broken = [number for number, row in enumerate(rows) if row.cause == "tools_reordered"]
    assert broken == [1, 3, 4, 5, 7]
    assert [rows[number].lost for number in broken] == [after[number] - before[number] for number in broken]
