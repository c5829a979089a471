"""Each rule of a what-if against the analysis of a log that was really changed, by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefixscope import api
from prefixscope.breaks.causes import FAULTS, RUNG_CAUSES, SEPARATIONS
from prefixscope.breaks.whatif import CHANGES, OTHER_WAYS, UNCHANGEABLE
from prefixscope.cli.main import main
from prefixscope.report.words_breaks import CAUSE_WORDS, NO_WHAT_IF, REMEDIES
from prefixscope.results.breaks import WhatIf
from tests.breaks.further import ASKED, DESK, FACTS, PARTS, STORY
from tests.breaks.situations import KEEPS, TOOLS, WITH_IDS, call, chat, result
from tests.breaks.told import CHATML
from tests.cases import write_log, write_models
from tests.shared import needs_shared

pytestmark = needs_shared
Rows = list[dict[str, Any]]


def nothing(*_: object) -> None:
    """Progress that nobody watches."""


def log_of(folder: Path, name: str, rows: Rows, template: str | None, **options: Any) -> api.LogOptions:
    models = None if template is None else str(write_models(folder, {"chat_template": template}))
    path = str(write_log(folder / name, rows))
    return api.LogOptions((path,), models_file=models, render=None if template is None else "plain", **options)


def computed(folder: Path, cause: str, rows: Rows, template: str | None, **options: Any) -> list[tuple[int, int]]:
    log = log_of(folder, "log.jsonl", rows, template, **options)
    found = api.explain(api.ExplainOptions(log, what_if=(cause,)), nothing).report.what_ifs
    return [(one.prompt_tokens_after, one.cached_tokens_after) for one in found]


def analyzed(folder: Path, rows: Rows, template: str | None) -> tuple[int, int]:
    log = log_of(folder, "changed.jsonl", rows, template)
    totals = api.analyze(api.AnalyzeOptions(log), nothing).reports[0].totals
    return totals.prompt_tokens, totals.cached_tokens


def changed(rows: Rows, change: Callable[[dict[str, Any]], None]) -> Rows:
    rows = copy.deepcopy(rows)
    for row in rows:
        change(row)
    return rows


def growing(head: Callable[[int], str | None], **fields: Any) -> Rows:
    """Three conversations of three turns each."""
    rows = []
    for turns in (1, 3, 5):
        for talk in range(3):
            story = (f"{talk}: {STORY[0]}", *STORY[1:])
            rows.append(chat(head(len(rows)), *story[:turns], session_id=f"s{talk}", **fields))
    return rows


OPENING = "<think>\n\n</think>\n\n"


def test_a_history_that_repeats_the_generation_prompt(tmp_path: Path) -> None:
    template = CHATML.replace("assistant\n{% endif %}", f"assistant\n{OPENING}{{% endif %}}")
    repeating = template.replace(
        "{{ m.content }}", f"{{% if m.role == 'assistant' %}}{OPENING}{{% endif %}}{{{{ m.content }}}}"
    )
    rows = growing(lambda _: DESK)
    (found,) = computed(tmp_path, "template_generation_prefix", rows, template)
    folder = tmp_path / "repeating"
    folder.mkdir()
    assert found == analyzed(folder, rows, repeating)
    assert found[1] > analyzed(tmp_path, rows, template)[1]


def test_answers_as_the_same_ids(tmp_path: Path) -> None:
    rows = [
        {**chat(DESK, STORY[0]), "response": STORY[1], "output_token_ids": list(range(40))},
        {**chat(DESK, *STORY[:3]), "response": STORY[3], "output_token_ids": list(range(30))},
        chat(DESK, *STORY[:5]),
    ]
    (found,) = computed(tmp_path, "retokenization", rows, CHATML)
    as_text = changed(rows, lambda row: row.pop("output_token_ids", None))
    assert found == analyzed(tmp_path, as_text, CHATML)
    assert found[1] > analyzed(tmp_path, rows, CHATML)[1]


def test_tenants_that_share(tmp_path: Path) -> None:
    rows = [{"prompt_token_ids": list(range(200)), "tenant": name} for name in ("north", "south", "north", "west")]
    (found,) = computed(tmp_path, "cache_salt", rows, None, namespace_by="tenant")
    assert found == analyzed(tmp_path, rows, None) == (800, 3 * 192)


def test_ids_of_calls_by_their_order(tmp_path: Path) -> None:
    rows = []
    for number in ("call_Qw3aaa", "call_Zx9bbb", "toolu_abcDEFghi"):
        rows.append(chat(DESK, ASKED[0], call("boat_status", "{}", number), result("on time", number)))
    (found, _) = computed(tmp_path, "volatile_id", rows, WITH_IDS)

    def numbered(row: dict[str, Any]) -> None:
        row["messages"][2]["tool_calls"][0]["id"] = row["messages"][3]["tool_call_id"] = "call00001"

    assert found == analyzed(tmp_path, changed(rows, numbered), WITH_IDS)
    assert found[1] > analyzed(tmp_path, rows, WITH_IDS)[1]


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        ("timestamp", "It is {n:02d}:17:05 now."),
        ("date", "Heute ist Montag, der {n}. Dezember 2026."),
        ("volatile_id", "Trace 4bf92f3577b3{n}4da6."),
    ],
)
def test_a_line_that_is_taken_out_or_moved_to_the_end(cause: str, line: str, tmp_path: Path) -> None:
    rows = growing(lambda number: f"{line.format(n=number + 10)}\n{DESK}")
    out, moved = computed(tmp_path, cause, rows, CHATML)

    def without(row: dict[str, Any]) -> str:
        head, _, row["messages"][0]["content"] = row["messages"][0]["content"].partition("\n")
        return str(head)

    def at_the_end(row: dict[str, Any]) -> None:
        head = without(row)
        row["messages"][-1]["content"] += "\n" + head

    if cause == "timestamp":
        assert out == analyzed(tmp_path, changed(rows, lambda row: without(row) and None), CHATML)
        assert moved == analyzed(tmp_path, changed(rows, at_the_end), CHATML)
    before = analyzed(tmp_path, rows, CHATML)
    assert before[1] < moved[1] <= out[1]
    assert out[0] < before[0]


def test_all_that_varies_in_one_header(tmp_path: Path) -> None:
    rows = growing(lambda n: f"[{10 + n}:00:01 | desk 7 | req 8f{n}e11 | {n + 1} Dec 2026] {DESK}")
    out, _ = computed(tmp_path, "timestamp", rows, CHATML)

    def bare(row: dict[str, Any]) -> None:
        row["messages"][0]["content"] = f"[ | desk 7 | req  | ] {DESK}"

    assert out == analyzed(tmp_path, changed(rows, bare), CHATML)
    assert out[1] > 10 * analyzed(tmp_path, rows, CHATML)[1]


def test_results_in_the_order_of_their_calls(tmp_path: Path) -> None:
    both = [*call("a", "{}")["tool_calls"], *call("b", "{}", "call_2")["tool_calls"]]
    calls = {"role": "assistant", "content": "", "tool_calls": both}
    results = [result("The Aldis is ten minutes late."), result("Fog on quay B, wind from the west.", "call_2")]
    rows = [
        chat(DESK, ASKED[0], calls, *results),
        chat(DESK, ASKED[0], calls, *results[::-1], *chat(None, STORY[0], "Late.", "ok")["messages"][1:]),
    ]  # fmt: skip
    (found,) = computed(tmp_path, "documents_reordered", rows, TOOLS)
    rows[1]["messages"][3:5] = results
    assert found == analyzed(tmp_path, rows, TOOLS)


def test_reasoning_that_is_sent_back(tmp_path: Path) -> None:
    def answer(text: str, thought: str | None) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        return message if thought is None else {**message, "reasoning_content": thought}

    thought = "The night train is late, so the boat waits for it."
    kept = [
        chat(DESK, STORY[0], answer(STORY[1], thought), STORY[2]),
        chat(DESK, STORY[0], answer(STORY[1], thought), STORY[2], STORY[3], STORY[4]),
    ]
    dropped = copy.deepcopy(kept)
    del dropped[1]["messages"][2]["reasoning_content"]
    never = changed(kept, lambda row: row["messages"][2].pop("reasoning_content"))
    out, back = computed(tmp_path, "reasoning_dropped", dropped, KEEPS)
    assert out == analyzed(tmp_path, never, KEEPS)
    assert back == analyzed(tmp_path, kept, KEEPS)
    assert min(out[1], back[1]) > analyzed(tmp_path, dropped, KEEPS)[1]


def test_reasoning_of_an_answer_with_think_tags_is_sent_back(tmp_path: Path) -> None:
    spoken = f"<think>\nThe train first.\n</think>\n\n{STORY[1]}"
    rows = [{**chat(DESK, STORY[0]), "response": spoken}, chat(DESK, *STORY[:3])]
    _, back = computed(tmp_path, "reasoning_dropped", rows, CHATML)
    kept = copy.deepcopy(rows)
    kept[1]["messages"][2]["content"] = spoken
    assert back == analyzed(tmp_path, kept, CHATML)


def test_passages_given_as_parts(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": f"{fact}\n"} for fact in FACTS]

    def asked(order: tuple[int, ...], question: str) -> dict[str, Any]:
        content = [*(parts[n] for n in order), {"type": "text", "text": question}]
        return chat(DESK, {"role": "user", "content": content})

    rows = [asked((0, 1, 2, 3), ASKED[0]), asked((3, 0, 2, 1), ASKED[1]), asked((1, 0, 2, 3), ASKED[2])]

    def in_order(row: dict[str, Any]) -> None:
        content = row["messages"][1]["content"]
        row["messages"][1]["content"] = [*sorted(content[:-1], key=lambda part: str(part["text"])), content[-1]]

    (found,) = computed(tmp_path, "documents_reordered", rows, PARTS)
    assert found == analyzed(tmp_path, changed(rows, in_order), PARTS)
    assert found[1] > analyzed(tmp_path, rows, PARTS)[1]


def test_text_that_was_wrapped_anew(tmp_path: Path) -> None:
    wrapped = STORY[1].replace("train and", "train\nand")
    rows = [chat(DESK, STORY[0], wrapped, STORY[2]), chat(DESK, *STORY[:5])]
    (found,) = computed(tmp_path, "whitespace", rows, CHATML)
    rows[0]["messages"][2]["content"] = STORY[1]
    assert found == analyzed(tmp_path, rows, CHATML)


def test_every_cause_has_words_and_a_what_if_or_a_reason_for_none() -> None:
    causes = {*SEPARATIONS, *FAULTS, *RUNG_CAUSES}
    assert set(CHANGES) | set(UNCHANGEABLE) == causes and not set(CHANGES) & set(UNCHANGEABLE)
    assert set(NO_WHAT_IF) == set(UNCHANGEABLE)
    assert set(OTHER_WAYS) <= set(CHANGES)
    assert causes <= set(CAUSE_WORDS) and causes <= set(REMEDIES)


def test_the_report_says_why_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [chat(DESK, ASKED[0], tools=[{"name": "a"}]), chat(DESK, ASKED[1], tools=[{"name": "b"}])]
    log = log_of(tmp_path, "log.jsonl", rows, TOOLS)
    assert main(["explain", log.logs[0], "--models", str(log.models_file), "--render", "plain"]) == 0
    assert "tools_changed: which tools a request offers is the application's choice" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_what_if_that_changes_nothing_says_so() -> None:
    from prefixscope.report.words_breaks import what_if_in_words

    assert what_if_in_words(WhatIf(("date",), "the date is taken out", 0, 10, 5, 10, 5)).endswith("changes by it")
