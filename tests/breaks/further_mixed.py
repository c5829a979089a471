"""More situations, with several earlier requests to choose from, long texts, and faults of more than one kind."""

# ruff: noqa: E501  (prompts are easier to compare on one line)

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

from tests.breaks.further import ASKED, BOATS, DESK, FACTS, PARTS, STORY, Further
from tests.breaks.situations import KEEPS, TOOLS, WITH_IDS, call, chat, result
from tests.breaks.told import CHATML

LONG = " ".join(f"Rule {number}: {fact}" for number, fact in enumerate(FACTS * 6))


def candidates() -> Iterator[Further]:
    clock = [f"Now 08:{n:02d}:{n * 7 % 60:02d}. " + LONG for n in range(6)]
    yield "the same question asked before", "timestamp", 1, CHATML, [
        chat(clock[0], ASKED[0]), chat(clock[1], ASKED[1]), chat(clock[2], ASKED[2]), chat(clock[3], ASKED[1]),
    ]  # fmt: skip
    yield "ties go to the latest", "timestamp", 2, CHATML, [
        chat(clock[0], "aaaa"), chat(clock[1], "bbbb"), chat(clock[2], "cccc"), chat(clock[3], "dddd"),
    ]  # fmt: skip
    yield "the own conversation, not the others", "timestamp", 1, CHATML, [
        chat(clock[0], ASKED[0]), chat(clock[1], *STORY[:1]), chat(clock[2], ASKED[2]), chat(clock[3], *STORY[:3]),
    ]  # fmt: skip
    yield "the own session, not the likest", "timestamp", 0, CHATML, [
        chat(clock[0], STORY[0], session_id="a"), chat(clock[1], *STORY[:3], session_id="b"), chat(clock[2], *STORY[:3], session_id="a"),
    ]  # fmt: skip
    other = "You translate harbour notices into plain French and keep all names as they are written."
    yield "another application in between", "date", 0, CHATML, [
        chat(f"30 November 2026. {DESK}", ASKED[0]), chat(other, "Fog."), chat(other, "Ice on quay B."), chat(f"1 December 2026. {DESK}", ASKED[1]),
    ]  # fmt: skip
    yield "tools of an earlier request", "tools_reordered", 0, TOOLS, [
        chat(DESK, ASKED[0], tools=BOATS), chat("You draw maps of quays.", "Quay B.", tools=[]), chat(DESK, ASKED[1], tools=BOATS[::-1]),
    ]  # fmt: skip
    yield "two variants of a head in turn", "append_only", 0, CHATML, [
        chat(DESK, *STORY[:1]), chat("Be brief. " + DESK, *STORY[:1]), chat(DESK, *STORY[:3]),
    ]  # fmt: skip


def several() -> Iterator[Further]:
    """The first difference names the cause; what lies behind it does not."""
    yield "a date and other tools", "tools_changed", 0, TOOLS, [
        chat(f"30.11.2026 {DESK}", ASKED[0], tools=BOATS), chat(f"01.12.2026 {DESK}", ASKED[0], tools=BOATS[:3]),
    ]  # fmt: skip
    yield "a clock, an id and a date in one line", "timestamp", 0, CHATML, [
        chat(f"[08:00:01 | req 8f3e11 | 30 Nov 2026] {DESK}", ASKED[0]), chat(f"[09:14:55 | req 02bd97 | 1 Dec 2026] {DESK}", ASKED[0]),
    ]  # fmt: skip
    yield "an id first, a clock behind", "volatile_id", 0, CHATML, [
        chat(f"[req 8f3e11 | 08:00:01] {DESK}", ASKED[0]), chat(f"[req 02bd97 | 09:14:55] {DESK}", ASKED[0]),
    ]  # fmt: skip
    yield "a clock in the head while the window slides", "timestamp", 0, CHATML, [
        chat(f"08:00 {DESK}", *STORY[:5], session_id="z"), chat(f"08:04 {DESK}", *STORY[2:7], session_id="z"),
    ]  # fmt: skip
    yield "keys and order of the tools at once", "tools_reordered", 0, TOOLS, [
        chat(DESK, ASKED[0], tools=BOATS), chat(DESK, ASKED[0], tools=[dict(reversed(one.items())) for one in BOATS[::-1]]),
    ]  # fmt: skip
    old = chat(DESK, ASKED[0], call("boat_status", '{"hour": 10}', "call_1"), result("late", "call_1"))
    new = chat(
        DESK,
        ASKED[0],
        call("boat_status", '{"hour":10}', "call_1"),
        result("late", "call_1"),
        {"role": "user", "content": "ok"},
    )
    yield "the second of two turns rewritten", "tool_arguments_reserialized", 0, WITH_IDS, [old, new]


def results() -> Iterator[Further]:
    def looked(stamp: str, *more: dict[str, object]) -> dict[str, object]:
        return chat(
            DESK,
            ASKED[0],
            call("boat_status", "{}"),
            result(f'{{"fetched_at": "{stamp}", "status": "late", "quay": "B"}}'),
            *more,
            tools=BOATS,
        )

    after = ({"role": "assistant", "content": "It is late."}, {"role": "user", "content": "By how much?"})
    yield (
        "a tool's answer fetched anew",
        "timestamp",
        0,
        TOOLS,
        [looked("2026-11-30T08:00:01Z"), looked("2026-11-30T08:00:09Z", *after)],
    )
    long = "\n".join(f"{hour}:00 {fact}" for hour, fact in enumerate(FACTS * 4))
    whole = chat(DESK, ASKED[0], call("boat_status", "{}"), result(long), *after, tools=BOATS)
    cleared = chat(
        DESK,
        ASKED[0],
        call("boat_status", "{}"),
        result("[old result removed]"),
        *after,
        {"role": "assistant", "content": "An hour."},
        {"role": "user", "content": "ok"},
        tools=BOATS,
    )
    yield "an old result cleared", "content_changed", 0, TOOLS, [whole, cleared]
    yield "the newest turn's reminder is gone later", "content_changed", 0, CHATML, [
        chat(DESK, STORY[0] + "\n<reminder>Answer in one line.</reminder>"),
        chat(DESK, STORY[0], STORY[1], STORY[2] + "\n<reminder>Answer in one line.</reminder>"),
    ]  # fmt: skip


def forms() -> Iterator[Further]:
    yield "emoji and accents behind a clock", "timestamp", 0, CHATML, [
        chat(f"⏰ 08:00 — Fähre „Aldis“ 🚢. {DESK}", ASKED[0]), chat(f"⏰ 08:31 — Fähre „Aldis“ 🚢. {DESK}", ASKED[1]),
    ]  # fmt: skip
    yield (
        "a long head",
        "date",
        0,
        CHATML,
        [chat(f"{LONG} Monday, November 30 {LONG}", ASKED[0]), chat(f"{LONG} Tuesday, December 1 {LONG}", ASKED[0])],
    )
    yield (
        "white space deep in a long head",
        "whitespace",
        0,
        CHATML,
        [chat(f"{LONG}\n\n{LONG}", ASKED[0]), chat(f"{LONG}\n{LONG}", ASKED[1])],
    )
    yield (
        "trailing blank of the question",
        "whitespace",
        0,
        CHATML,
        [chat(DESK, STORY[0] + " "), chat(DESK, *STORY[:3])],
    )
    yield "the head as parts", "content_format", 0, PARTS.replace("{{ p.text }}", "{{ p.text }}\n"), [
        chat(DESK, ASKED[0]),
        {"messages": [{"role": "system", "content": [{"type": "text", "text": DESK}]}, {"role": "user", "content": ASKED[1]}]},
    ]  # fmt: skip
    thought = {"role": "assistant", "content": STORY[1], "reasoning_content": "First the train, then the boat."}
    yield "reasoning gone two turns later", "reasoning_dropped", 1, KEEPS, [
        chat(DESK, STORY[0]), chat(DESK, STORY[0], thought, STORY[2]), chat(DESK, STORY[0], STORY[1], STORY[2], STORY[3], STORY[4]),
    ]  # fmt: skip
    passages = [f"Source: {fact}" for fact in FACTS]
    yield "passages between two fixed texts", "documents_reordered", 0, CHATML, [
        chat(DESK, "Read this.\n\n" + "\n\n".join(passages) + "\n\nThen answer: is the boat late?"),
        chat(DESK, "Read this.\n\n" + "\n\n".join(passages[::-1]) + "\n\nThen answer: is the boat late?"),
    ]  # fmt: skip
    yield "an edited head in the middle of a talk", "system_variant", 0, CHATML, [
        chat(DESK, *STORY[:3], session_id="e"), chat(DESK.replace("deck number", "cabin number"), *STORY[:5], session_id="e"),
    ]  # fmt: skip
    yield "a longer answer than was sent", "content_changed", 0, CHATML, [
        chat(DESK, *STORY[:3]), chat(DESK, STORY[0], STORY[1] + " Please be there by ten.", *STORY[2:5]),
    ]  # fmt: skip


def agents() -> Iterator[Further]:
    def blocks(nonce: str) -> dict[str, object]:
        first = f"x-client-billing: version=2.1.45.{nonce}; cch={nonce[::-1]}9;"
        return {
            "role": "system",
            "content": [{"type": "text", "text": first}, {"type": "text", "text": f"{DESK} {LONG}"}],
        }

    def step(nonce: str, *turns: str) -> dict[str, object]:
        return {"messages": [blocks(nonce), *chat(None, *turns)["messages"]]}

    yield (
        "a nonce in the first block of the head",
        "volatile_id",
        1,
        PARTS,
        [step("3c7", STORY[0]), step("a01", *STORY[:3]), step("f9e", *STORY[:5])],
    )
    block = "<env>\nplatform: linux\nToday's date: {}\n</env>\n\n" + STORY[0]
    yield "the day rolls over while talking", "date", 0, CHATML, [
        chat(DESK, block.format("Mon Nov 30 2026"), *STORY[1:3]), chat(DESK, block.format("Tue Dec 1 2026"), *STORY[1:5]),
    ]  # fmt: skip
    yield "a tool's answer trimmed", "whitespace", 0, TOOLS, [
        chat(DESK, ASKED[0], call("boat_status", "{}"), result("late by ten minutes\n"), tools=BOATS),
        chat(DESK, ASKED[0], call("boat_status", "{}"), result("late by ten minutes"), {"role": "assistant", "content": "Late."}, {"role": "user", "content": "ok"}, tools=BOATS),
    ]  # fmt: skip
    for one, two in (
        ("Step 4 of 50. ", "Step 5 of 50. "),
        ("[iteration 7] ", "[iteration 8] "),
        ("attempt: 1\n", "attempt: 2\n"),
        ("Tokens used: 12841. ", "Tokens used: 13990. "),
    ):
        yield f"a counter {one}", "volatile_id", 0, CHATML, [chat(one + DESK, ASKED[0]), chat(two + DESK, ASKED[1])]
    for one, two in (
        ("Updated 2 days ago. ", "Updated 3 days ago. "),
        ("Updated a week ago. ", "Updated 2 weeks ago. "),
    ):
        yield f"an age {one}", "date", 0, CHATML, [chat(one + DESK, ASKED[0]), chat(two + DESK, ASKED[1])]
    yield "a git status in the head", "system_variant", 0, CHATML, [
        chat(f"{DESK}\ngit status:\nM quays.py\n", STORY[0], session_id="g"), chat(f"{DESK}\ngit status:\nM quays.py\nM boats.py\n", *STORY[:3], session_id="g"),
    ]  # fmt: skip
    yield "a mode switched while talking", "system_variant", 0, TOOLS, [
        chat(DESK + " Mode: plan only, change nothing.", *STORY[:3], tools=BOATS, session_id="m"),
        chat(DESK + " Mode: act on what was planned.", *STORY[:5], tools=BOATS, session_id="m"),
    ]  # fmt: skip
    turns = (1, 3, 5)
    mixed = [BOATS if place % 2 else BOATS[::-1] for place in range(3)]
    yield "two orders of the tools in turn", "tools_reordered", 1, TOOLS, [
        chat(DESK, *STORY[:number], tools=tools, session_id="o") for number, tools in zip(turns, mixed, strict=True)
    ]  # fmt: skip


def compactions() -> Iterator[Further]:
    told = "This session is being continued from a previous conversation. The traveller asked about the boat and the lounge."
    yield (
        "all turns summed up in one",
        "history_truncated",
        0,
        CHATML,
        [chat(DESK, *STORY[:7], session_id="q"), chat(DESK, told, session_id="q")],
    )
    summary = DESK + "\n\nSummary of the earlier conversation: the boat is late, the lounge is on deck seven."
    for fields in ({}, {"session_id": "q"}):
        yield (
            "a summary in the head",
            "history_truncated",
            0,
            CHATML,
            [chat(DESK, *STORY[:7], **fields), chat(summary, *STORY[4:9], **fields)],
        )
    yield (
        "a question about a summary",
        "branched",
        0,
        CHATML,
        [chat(DESK, *STORY[:7], session_id="q"), chat(DESK, "Write a summary of the timetable.", session_id="q")],
    )
    calls = {
        "role": "assistant",
        "content": "",
        "tool_calls": [*call("a", "{}")["tool_calls"], *call("b", "{}", "call_2")["tool_calls"]],
    }
    one, two = result("The Aldis is ten minutes late."), result("Fog on quay B, wind from the west.", "call_2")
    yield "two tool results in the other order", "documents_reordered", 0, TOOLS, [
        chat(DESK, ASKED[0], calls, one, two), chat(DESK, ASKED[0], calls, two, one, {"role": "assistant", "content": "Late."}, {"role": "user", "content": "ok"}),
    ]  # fmt: skip
    yield "a typo corrected while the talk goes on", "content_changed", 1, CHATML, [
        chat(DESK, STORY[0], session_id="y"), chat(DESK, *STORY[:3], session_id="y"),
        chat(DESK, STORY[0].replace("boat", "ferry"), *STORY[1:3], session_id="y"),
    ]  # fmt: skip
    yield "samples of one answer", "append_only", 0, CHATML, [
        chat(DESK, STORY[0]), *(chat(DESK, STORY[0], f"{name} {STORY[1]}", STORY[2]) for name in ("Well:", "Hm:", "So:")),
    ]  # fmt: skip


def calm() -> Iterator[Further]:
    """No fault in any of these."""
    yield (
        "the user tells the time",
        "append_only",
        0,
        CHATML,
        [chat(DESK, "It is 08:00 now."), chat(DESK, "It is 08:00 now.", "Good morning.", "It is 08:05 now.")],
    )
    yield (
        "questions with numbers",
        "branched",
        2,
        CHATML,
        [chat(DESK, f"Where is case {n}?") for n in (4711, 4712, 4713, 4714)],
    )
    yield (
        "questions with dates",
        "branched",
        0,
        CHATML,
        [chat(DESK, "Is there a boat on 30 November 2026?"), chat(DESK, "Is there a boat on 1 December 2026?")],
    )
    yield (
        "questions behind a common document",
        "branched",
        0,
        CHATML,
        [chat(DESK, f"{LONG}\n\n{ASKED[0]}"), chat(DESK, f"{LONG}\n\n{ASKED[1]}")],
    )
    yield "other documents", "branched", 0, CHATML, [
        chat(DESK, f"[1] {FACTS[0]}\n[2] {FACTS[1]}\n\n{ASKED[0]}"), chat(DESK, f"[1] {FACTS[2]}\n[2] {FACTS[3]}\n\n{ASKED[0]}"),
    ]  # fmt: skip
    yield (
        "retries with new request ids",
        "rewound",
        0,
        TOOLS,
        [chat(DESK, ASKED[0], tools=BOATS, request_id=f"r{n}", metadata={"attempt": n}) for n in (1, 2)],
    )
    yield "two calls of one step in the other order", "branched", 0, TOOLS, [
        chat(DESK, ASKED[0], call("boat_status", "{}"), result("late"), tools=BOATS),
        chat(DESK, ASKED[0], call("weather", "{}"), result("fog"), tools=copy.deepcopy(BOATS)),
    ]  # fmt: skip
    yield "tool choice changes", "append_only", 0, TOOLS, [
        chat(DESK, ASKED[0], tools=BOATS, tool_choice="auto"), chat(DESK, *STORY[:3], tools=BOATS, tool_choice="none") | {"messages": chat(DESK, ASKED[0], "Yes.", "ok")["messages"]},
    ]  # fmt: skip
    yield "a classifier before each turn", "append_only", 1, CHATML, [
        chat("Say in one word whether this is urgent.", ASKED[0], session_id="c"), chat(DESK, ASKED[0], session_id="c"),
        chat("Say in one word whether this is urgent.", ASKED[1], session_id="c"), chat(DESK, ASKED[0], "Yes.", ASKED[1], session_id="c"),
    ]  # fmt: skip
    yield "a title made of the talk", "first_seen", None, CHATML, [
        chat(DESK, ASKED[0], session_id="t"), chat("Write a title of three words, no quotes.", f"User: {ASKED[0]}", session_id="t"),
    ]  # fmt: skip
    yield (
        "prompts of ids that grow",
        "append_only",
        1,
        None,
        [{"prompt_token_ids": list(range(n))} for n in (48, 64, 80)],
    )
    yield "exactly one block", "rewound", 0, None, [{"prompt_token_ids": list(range(16))}] * 2
    yield (
        "nothing in common",
        "first_seen",
        None,
        None,
        [{"prompt_token_ids": list(range(100))}, {"prompt_token_ids": list(range(300, 500))}],
    )


def all_mixed() -> list[Further]:
    kinds = (candidates, several, results, forms, agents, compactions, calm)
    return [json.loads(json.dumps(one)) for kind in kinds for one in kind()]
