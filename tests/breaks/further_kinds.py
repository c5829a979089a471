"""Situations found by trying applications of many kinds: agents, documents in prompts, clients that edit history."""

# ruff: noqa: E501  (prompts are easier to compare on one line)

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.breaks.further import ASKED, DESK, FACTS, Further
from tests.breaks.situations import WITH_IDS, call, chat, result
from tests.breaks.told import CHATML

OTHER = DESK.replace("Lodberg Ferries", "Harbour Cycles")
STORY = (
    "Is the ten o'clock boat on time?",
    "Yes, it left the pier at ten.",
    "Can I bring a bicycle?",
    "Yes.",
    "Thanks!",
)
NATIVE = CHATML.replace("{{ m.content }}", "{{ m.content if m.content is string else m.content[0].text }}")


def elsewhere() -> Iterator[Further]:
    """The same questions asked under another name, without sessions: what is kept whole is compared with nothing else."""
    before = [chat(DESK, *STORY[:1]), chat(DESK, *STORY[:3])]
    yield "two variants: another tenant, the last question edited", "branched", 2, CHATML, [
        *before, chat(OTHER, *STORY[:3]), chat(OTHER, *STORY[:2], "May I take a dog with me on deck four?"),
    ]  # fmt: skip
    parts = chat(OTHER, *STORY[:3])
    parts["messages"][1] = {**parts["messages"][1], "content": [{"type": "text", "text": STORY[0]}]}
    yield (
        "two variants: another tenant, the same prompt from parts",
        "rewound",
        2,
        NATIVE,
        [*before, chat(OTHER, *STORY[:3]), parts],
    )
    yield "two variants: another tenant, a blank at the end of the head", "whitespace", 2, CHATML, [
        chat(DESK + " ", *STORY[:1]), chat(DESK, *STORY[:3]), chat(OTHER + " ", *STORY[:1]), chat(OTHER, *STORY[:3]),
    ]  # fmt: skip


def spaces() -> Iterator[Further]:
    code = "def total(rows):\n    found = 0\n    for row in rows:\n        found += row.price\n    return found\n"
    table = json.dumps({"boat": 7, "deck": "four", "stops": ["pier", "lock", "mill"]})
    for title, old, new in (
        ("line ends", code, code.replace("\n", "\r\n")),
        ("blanks doubled", "a b c d e f g", "a  b  c  d  e  f  g"),
        ("JSON in a fence", f"```json\n{table}\n```", f"```json\n{table.replace(' ', '')}\n```"),
        ("JSON in a sentence", f"The boat is {table}", f"The boat is {table.replace(': ', ':').replace(', ', ',')}"),
    ):
        yield f"many places: {title}", "whitespace", 0, WITH_IDS, [
            {"messages": [*history(old), {"role": "user", "content": "And?"}], "session_id": "s"},
            {"messages": [*history(new), {"role": "user", "content": "And?"}, {"role": "assistant", "content": "Fine."}], "session_id": "s"},
        ]  # fmt: skip
    yield "a clock behind other line ends", "timestamp", 0, CHATML, [
        chat(f"Now 08:00:01.\r\n{DESK}\r\nBe kind.", ASKED[0]), chat(f"Now 08:17:44.\n{DESK}\nBe kind.", ASKED[0]),
    ]  # fmt: skip
    yield "blanks in front of a clock", "whitespace", 0, CHATML, [
        chat(f"{DESK}  Now 08:00:01. Be kind to everybody.", ASKED[0]), chat(f"{DESK} Now 08:17:44. Be kind to everybody.", ASKED[0]),
    ]  # fmt: skip


def history(text: str) -> list[dict[str, object]]:
    return [
        {"role": "system", "content": DESK}, {"role": "user", "content": ASKED[0]},
        call("find", {"q": 7}), result(text),
        {"role": "assistant", "content": "It is there."},
    ]  # fmt: skip


def reasoning() -> Iterator[Further]:
    thought = "The traveller asks about the boat. I look at the board first."
    for opening, closing in (
        ("<think>", "</think>\n"), ("<think>\n", "</think>"), ("<|channel>thought\n", "<channel|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"), ("[THINK]", "[/THINK]"),
    ):  # fmt: skip
        shown = f"{opening}{{{{ m.reasoning_content }}}}{closing}"
        template = CHATML.replace(
            "{{ m.content }}",
            f"{{% if m.reasoning_content and loop.index0 > ns.last %}}{shown}{{% endif %}}{{{{ m.content }}}}",
        )
        last = "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
        answered = {"role": "assistant", "content": "On time.", "reasoning_content": thought}
        first = [{"role": "system", "content": DESK}, {"role": "user", "content": ASKED[0]}, answered]
        yield f"a template shows it in the last turn only: {opening!r}", "reasoning_dropped", 0, last + template, [
            {"messages": [*first, result("board: on time")], "session_id": "s"},
            {"messages": [*first, result("board: on time"), {"role": "user", "content": ASKED[1]}], "session_id": "s"},
        ]  # fmt: skip
    yield "emptied by the client", "reasoning_dropped", 0, CHATML, [
        chat(DESK, ASKED[0], f"<think>{thought}</think>\n\nOn time.", ASKED[1], session_id="s"),
        chat(DESK, ASKED[0], "<think></think>\n\nOn time.", ASKED[1], "Deck five.", ASKED[2], session_id="s"),
    ]  # fmt: skip


def rewritten() -> Iterator[Further]:
    """Turns that have an answer by now, and another text than before."""
    log = "Boat 7: quiet lounge on deck five, bicycles on deck two, dogs on deck one. " * 4

    def told(text: str, *more: dict[str, object]) -> dict[str, object]:
        return {"messages": [*history(text)[:4], *more], "session_id": "s"}

    answer = {"role": "assistant", "content": "Deck five."}
    for title, new, cause in (
        ("cleared", "[old tool result cleared]", "content_changed"),
        ("cut", log[:100] + "...", "content_changed"),
        ("line ends", log.replace(". ", ".\r\n"), "whitespace"),
    ):
        yield (
            f"a tool's answer {title}",
            cause,
            0,
            WITH_IDS,
            [told(log), told(new, answer, {"role": "user", "content": "And dogs?"})],
        )
    yield "a tool's answer as JSON", "tool_arguments_reserialized", 0, WITH_IDS, [
        told('{"deck": 5, "boat": 7, "open": true}'), told('{"deck":5,"boat":7,"open":true}', answer),
    ]  # fmt: skip
    yield "a tool asked again", "branched", 0, WITH_IDS, [told(log), told("Boat 7: not found.")]
    for title, front in (
        ("a reminder", "Remember: answer in one line.\n\n"),
        ("a context", "\n".join(FACTS[:3]) + "\n\n"),
    ):
        yield f"{title} in front of a question, gone", "content_changed", 0, CHATML, [
            chat(DESK, front + ASKED[0], session_id="s"), chat(DESK, ASKED[0], "Yes.", front + ASKED[1], session_id="s"),
        ]  # fmt: skip
    yield "an age in front of a question", "content_changed", 0, CHATML, [
        chat(DESK, f"(just now) {ASKED[0]}", session_id="s"),
        chat(DESK, f"(2 minutes ago) {ASKED[0]}", "Yes.", f"(just now) {ASKED[1]}", session_id="s"),
    ]  # fmt: skip
    yield "another question", "branched", 0, CHATML, [
        chat(DESK, ASKED[0], session_id="s"), chat(DESK, ASKED[1], "Deck five.", ASKED[2], session_id="s"),
    ]  # fmt: skip


def passages() -> Iterator[Further]:
    objects = [json.dumps({"id": number, "text": text}) for number, text in enumerate(FACTS[:4])]
    texts = [json.dumps(text) for text in FACTS[:4]]
    order = [2, 0, 3, 1]
    for title, items, form in (
        ("objects", objects, "[{}]"), ("texts, indented", texts, "[\n {}\n]"), ("as Python prints them", [repr(text) for text in FACTS[:4]], "[{}]"),
    ):  # fmt: skip
        between = ",\n " if "\n" in form else ", "
        one, two = (form.format(between.join(items[n] for n in way)) for way in (range(4), order))
        yield f"a list of {title}", "documents_reordered", 0, CHATML, [
            chat(DESK, f"Context:\n{one}\n\nQuestion: {ASKED[0]}"), chat(DESK, f"Context:\n{two}\n\nQuestion: {ASKED[0]}"),
        ]  # fmt: skip
        yield f"a list of {title} in the head", "documents_reordered", 0, CHATML, [
            chat(f"{DESK}\n\n{one}", ASKED[0]), chat(f"{DESK}\n\n{two}", ASKED[0]),
        ]  # fmt: skip


def both() -> Iterator[Further]:
    """Two faults in one text: the first one is named."""
    facts = "\n".join(FACTS[:4]), "\n".join(FACTS[n] for n in (2, 0, 3, 1))
    yield "passages, then a clock", "documents_reordered", 0, CHATML, [
        chat(f"{facts[0]}\n\n{DESK}\nNow 08:00:01.", ASKED[0]), chat(f"{facts[1]}\n\n{DESK}\nNow 08:17:44.", ASKED[0]),
    ]  # fmt: skip
    yield "a clock, then passages", "timestamp", 0, CHATML, [
        chat(f"Now 08:00:01. {DESK}\n\n{facts[0]}", ASKED[0]), chat(f"Now 08:17:44. {DESK}\n\n{facts[1]}", ASKED[0]),
    ]  # fmt: skip


def clocks() -> Iterator[Further]:
    for one, two, cause in (
        ("现在9时15分32秒。", "现在10时16分01秒。", "timestamp"), ("現在は9時15分です。", "現在は10時16分です。", "timestamp"),
        ("지금은 9시 15분입니다. ", "지금은 10시 16분입니다. ", "timestamp"), ("今天是星期二。", "今天是星期三。", "date"),
        ("今天是2026年4月7日，星期二。", "今天是2026年4月8日，星期三。", "date"), ("今日は火曜日です。", "今日は水曜日です。", "date"),
        ("now = datetime.datetime(2026, 4, 7, 9, 15, 32)\n", "now = datetime.datetime(2026, 4, 7, 9, 16, 1)\n", "timestamp"),
        ("today = datetime.date(2026, 4, 7)\n", "today = datetime.date(2026, 4, 8)\n", "date"),
        ("Сегодня 7 апреля 2026 года. ", "Сегодня 1 мая 2026 года. ", "date"), ("Dziś jest 7 kwietnia 2026. ", "Dziś jest 1 maja 2026. ", "date"),
        ("09:15 CET. ", "10:16 CEST. ", "timestamp"), ("It is 9 o'clock. ", "It is 10 o'clock. ", "timestamp"),
        ("It is week 15 of 2026. ", "It is week 16 of 2026. ", "date"), ("The current year is 2026. ", "The current year is 2027. ", "date"),
        ("Tokens left: 48,211. ", "Tokens left: 9,870. ", "volatile_id"), ("trace 1909142837465120768. ", "trace 1909142911223054336. ", "volatile_id"),
        ("There are 3 boats. ", "There are 4 boats. ", "system_variant"), ("Decks: 12, 345 seats. ", "Decks: 12, 346 seats. ", "volatile_id"),
    ):  # fmt: skip
        yield f"written {one}", cause, 0, CHATML, [chat(one + DESK, ASKED[0]), chat(two + DESK, ASKED[1])]


def all_kinds() -> Iterator[Further]:
    """All of them."""
    for kind in (elsewhere, spaces, reasoning, rewritten, passages, both, clocks):
        yield from kind()
