"""Further situations: other names, formats, languages and clients than those of `situations`, and more controls.

Every entry is (what it is about, cause expected of the last request, row it is compared with, template, requests).
"""

# ruff: noqa: E501  (prompts are easier to compare on one line)

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from tests.breaks.situations import DROPS, KEEPS, TOOLS, WITH_IDS, call, chat, result, tool
from tests.breaks.told import CHATML

Request = dict[str, Any]
Further = tuple[str, str, int | None, str | None, list[Request]]

DESK = (
    "You answer for the night desk of Lodberg Ferries. Keep to timetable facts, quote the deck number where it is known, "
    "and hand over to a colleague when a traveller asks for a refund. Never promise compensation."
)
ASKED = ("Is the ten o'clock boat on time?", "Which deck has the quiet lounge?", "Can I bring a bicycle on board?")
PARTS = CHATML.replace(
    "{{ m.content }}",
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% else %}<|{{ p.type }}|>{% endif %}{% endfor %}{% endif %}",
)


def in_head(one: str, two: str) -> list[Request]:
    return [chat(one + DESK, ASKED[0]), chat(two + DESK, ASKED[1])]


def clocks() -> Iterator[Further]:
    for one, two in (
        ("Sent Mon, 30 Nov 2026 08:00:01 +0000. ", "Sent Mon, 30 Nov 2026 08:00:47 +0000. "),
        ("[30/Nov/2026:08:00:01 +0000] ", "[30/Nov/2026:08:03:59 +0000] "),
        ("now=1796025601.482 ", "now=1796025633.017 "),
        ("epoch_ms: 1796025601482\n", "epoch_ms: 1796025933017\n"),
        ("<t>1796025601482113000</t>", "<t>1796025601999887000</t>"),
        ("Stamp 20261130T080001Z. ", "Stamp 20261130T080947Z. "),
        ("Stamp 20261130080001. ", "Stamp 20261130080947. "),
        ("Local time 8:05 p.m. ", "Local time 8:47 p.m. "),
        ("Es ist jetzt 08:00 Uhr am 30. November 2026. ", "Es ist jetzt 08:17 Uhr am 30. November 2026. "),
        ("Il est 8 h 05. ", "Il est 8 h 41. "),
        ('{"clock": "2026-11-30T08:00:01.120+01:00"}\n', '{"clock": "2026-11-30T08:00:09.884+01:00"}\n'),
        ("Snapshot 2026-11-30_08-00-01. ", "Snapshot 2026-11-30_08-02-44. "),
        ("Last sync: 4 minutes ago. ", "Last sync: 9 minutes ago. "),
        ("Time: 23:59:58 (UTC). ", "Time: 00:00:03 (UTC). "),
    ):
        yield f"clock {one}", "timestamp", 0, CHATML, in_head(one, two)
        yield f"clock at the end {one}", "timestamp", 0, CHATML, [
            chat(f"{DESK}\n{one}", *ASKED[:1]), chat(f"{DESK}\n{two}", *ASKED[:1]),
        ]  # fmt: skip


def dates() -> Iterator[Further]:
    for one, two in (
        ("Today is Montag, 30. November 2026. ", "Today is Dienstag, 1. Dezember 2026. "),
        ("Heute ist Montag, der 30. November. ", "Heute ist Dienstag, der 1. Dezember. "),
        ("Nous sommes le lundi 30 novembre 2026. ", "Nous sommes le mardi 1er décembre 2026. "),
        ("Hoy es lunes, 30 de noviembre de 2026. ", "Hoy es martes, 1 de diciembre de 2026. "),
        ("Oggi è lunedì 30 novembre 2026. ", "Oggi è martedì 1 dicembre 2026. "),
        ("Vandaag is maandag 30 november 2026. ", "Vandaag is dinsdag 1 december 2026. "),
        ("今日は2026年11月30日です。", "今日は2026年12月1日です。"),
        ("As of 30-Nov-2026: ", "As of 01-Dec-2026: "),
        ("As of 30 Nov 26: ", "As of 1 Dec 26: "),
        ("Date: Monday the 30th of November, 2026. ", "Date: Tuesday the 1st of December, 2026. "),
        ("Calendar week 2026-W48. ", "Calendar week 2026-W49. "),
        ("ds=20261130 ", "ds=20261201 "),
        ("Valid on 2026.11.30 only. ", "Valid on 2026.12.01 only. "),
        ("Stand 30.11.26. ", "Stand 01.12.26. "),
        ("Month: November 2026. ", "Month: December 2026. "),
    ):
        yield f"date {one}", "date", 0, CHATML, in_head(one, two)
        yield f"date in the middle {one}", "date", 0, CHATML, [
            chat(f"{DESK}\n{one}\n{DESK}", *ASKED[:1]), chat(f"{DESK}\n{two}\n{DESK}", *ASKED[:1]),
        ]  # fmt: skip


def ids() -> Iterator[Further]:
    for one, two in (
        ("conversation 8c1f5c2e-5d0b-4c63-9a57-7b1f0a7c9d10\n", "conversation 0f4b7a91-77aa-4c1e-8f0e-2b6d5e1c4a99\n"),
        ("commit 3f2a77c ", "commit b1946ac "),
        ("rev 9d3e4b1a8c550a1b2c3d4e5f60718293a4b5c6d7. ", "rev 24923d4e9f5a6c7d8e9f0a1b2c3d4e5f60718293. "),
        ("host=worker-7f9c4d5b8-x2kqz ", "host=worker-7f9c4d5b8-p9wvt "),
        ("Running on ip-10-0-3-17. ", "Running on ip-10-0-12-4. "),
        ("Client 10.0.3.17. ", "Client 10.0.12.4. "),
        ("ulid 01JDQ8Z5M3K7T9V1X4B6N8R0QW ", "ulid 01JDQ8ZA2C4E6G8J0M1P3R5T7V "),
        ("nonce=Zm9vYmFyMTIz== ", "nonce=cXV4YmF6NDU2== "),
        ("Visitor no. 12,345. ", "Visitor no. 12,346. "),
        ("Order ORD-2026-000871. ", "Order ORD-2026-000872. "),
        ("build 4711. ", "build 4712. "),
        ("<session>sess_b7Kq29Lm</session>", "<session>sess_Xw04TzPa</session>"),
        (
            "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
            "traceparent: 00-a1b2c3d4e5f60718293a4b5c6d7e8f90-b7ad6b7169203331-01\n",
        ),
        ("tmpdir scratch/run-k3x9q2/ ", "tmpdir scratch/run-7pz4wd/ "),
        ("pid 48211 ", "pid 51377 "),
    ):
        yield f"id {one}", "volatile_id", 0, CHATML, in_head(one, two)
    for one, two in (("call_Qw3", "call_Zx9"), ("fc-0001", "fc-0417"), ("tool_abcDEFghi", "tool_zyxWVUtsr")):
        old = chat(DESK, ASKED[0], call("boat_status", '{"hour": 10}', one), result("on time", one))
        new = chat(
            DESK,
            ASKED[0],
            call("boat_status", '{"hour": 10}', two),
            result("on time", two),
            {"role": "user", "content": "thanks"},
        )
        yield f"call id {one}", "volatile_id", 0, WITH_IDS, [old, new]


def heads() -> Iterator[Further]:
    for one, two in (
        ("You are talking to Anna Weber. ", "You are talking to Bela Kovacs. "),
        ("Customer tier: gold. ", "Customer tier: basic. "),
        ("", "Reminder: the cafeteria on deck 3 is closed. "),
        ("Speak like a sailor. ", ""),
    ):
        yield f"head {one!r}", "system_variant", 0, CHATML, in_head(one, two)
    german = "Du antwortest nachts fuer die Lodberg-Faehren. Nenne nur Fahrplandaten."
    yield (
        "system prompt translated while talking",
        "system_variant",
        0,
        CHATML,
        [chat(DESK, *STORY[:3], session_id="f"), chat(german, *STORY[:5], session_id="f")],
    )


BOATS = [
    tool("boat_status", "Tells whether a departure is on time.", hour="integer", quay="string"),
    tool("deck_plan", "Where things are on a ship.", ship="string", place="string"),
    tool("note_handover", "Leaves a note for the day desk.", text="string"),
    tool("weather", "Wind and waves.", quay="string"),
]


def tools() -> Iterator[Further]:
    def pair(new: Any, old: Any = BOATS, **more: Any) -> list[Request]:
        return [chat(DESK, ASKED[0], tools=copy.deepcopy(old), **more), chat(DESK, ASKED[1], tools=new, **more)]

    yield "tools reversed", "tools_reordered", 0, TOOLS, pair(BOATS[::-1])
    yield "tools rotated in a session", "tools_reordered", 0, TOOLS, pair([*BOATS[1:], BOATS[0]], session_id="s1")
    going = chat(DESK, ASKED[0], "It is on time.", ASKED[1], tools=[BOATS[1], BOATS[0], *BOATS[2:]])
    yield "tools reordered while talking", "tools_reordered", 0, TOOLS, [chat(DESK, ASKED[0], tools=BOATS), going]
    deep = copy.deepcopy(BOATS)
    for name, field in deep[0]["function"]["parameters"]["properties"].items():
        deep[0]["function"]["parameters"]["properties"][name] = dict(reversed(field.items()))
    yield "keys of one parameter", "tool_schema_key_order", 0, TOOLS, pair(deep)
    yield "keys of every tool", "tool_schema_key_order", 0, TOOLS, pair([dict(reversed(one.items())) for one in BOATS])
    stricter = copy.deepcopy(BOATS)
    stricter[2]["function"]["strict"] = True
    yield "a field more", "tools_changed", 0, TOOLS, pair(stricter)
    yield (
        "one more in the middle",
        "tools_changed",
        0,
        TOOLS,
        pair([*BOATS[:2], tool("lost_property", "Finds things."), *BOATS[2:]]),
    )
    yield "no tools any more", "tools_changed", 0, TOOLS, pair([])
    enumerated = copy.deepcopy(BOATS)
    enumerated[0]["function"]["parameters"]["required"] = ["quay", "hour"]
    yield "another order of a list", "tools_changed", 0, TOOLS, pair(enumerated)
    for one, two in (
        ("Rates as of 2026-11-30.", "Rates as of 2026-12-01."),
        ("Valid on 30 Nov 2026.", "Valid on 1 Dec 2026."),
    ):
        old, new = copy.deepcopy(BOATS), copy.deepcopy(BOATS)
        old[3]["function"]["description"] += one
        new[3]["function"]["description"] += two
        yield f"a date in a tool {one}", "date", 0, TOOLS, pair(new, old)
    old, new = copy.deepcopy(BOATS), copy.deepcopy(BOATS)
    old[1]["function"]["description"] += " Request 7f3a9c1e."
    new[1]["function"]["description"] += " Request 0be84d52."
    yield "an id in a tool", "volatile_id", 0, TOOLS, pair(new, old)


FACTS = (
    "The quiet lounge of the Aldis is on deck seven, behind the reading room.",
    "Bicycles travel on the car deck and cost four crowns each way.",
    "The ten o'clock boat waits for the night train, at most a quarter of an hour.",
    "Dogs are allowed on the outer decks only.",
)


def documents() -> Iterator[Further]:
    for mark in ("[{}] {}", '<passage id="{}">{}</passage>', "Source {}: {}", "### Chunk {}\n{}", "* {1}"):
        one, two = ("\n".join(mark.format(n + 1, FACTS[n]) for n in order) for order in ((0, 1, 2, 3), (3, 1, 0, 2)))
        yield f"passages {mark}", "documents_reordered", 0, CHATML, [
            chat(DESK, f"Context:\n{one}\n\nQuestion: {ASKED[0]}"), chat(DESK, f"Context:\n{two}\n\nQuestion: {ASKED[0]}"),
        ]  # fmt: skip
    as_parts = [{"type": "text", "text": f"{fact}\n"} for fact in FACTS]
    question = {"type": "text", "text": ASKED[2]}
    yield "passages as parts", "documents_reordered", 0, PARTS, [
        chat(DESK, {"role": "user", "content": [*as_parts, question]}), chat(DESK, {"role": "user", "content": [*as_parts[::-1], question]}),
    ]  # fmt: skip


STORY = (
    "Is the ten o'clock boat on time?",
    "It waits for the night train and leaves at a quarter past ten.",
    "Which deck has the quiet lounge?",
    "Deck seven, behind the reading room.",
    "Can I bring a bicycle on board?",
    "Yes, on the car deck, for four crowns.",
    "And my dog, is it allowed?",
    "On the outer decks.",
    "Thank you, good night.",
)


def histories() -> Iterator[Further]:
    for sessions in ({}, {"session_id": "w"}):
        said = "with a session" if sessions else "without a session"
        yield f"window of four turns {said}", "history_truncated", 1, CHATML, [
            chat(DESK, *STORY[:5], **sessions), chat(DESK, *STORY[:7], **sessions), chat(DESK, *STORY[2:9], **sessions),
        ]  # fmt: skip
        yield f"the middle is cut {said}", "history_truncated", 0, CHATML, [
            chat(DESK, *STORY[:7], **sessions), chat(DESK, *STORY[:2], *STORY[4:9], **sessions),
        ]  # fmt: skip
        summary = {
            "role": "user",
            "content": "[Conversation compacted] The traveller asked about the ten o'clock boat and the lounge.",
        }
        yield f"compacted {said}", "history_truncated", 0, CHATML, [
            chat(DESK, *STORY[:7], **sessions), chat(DESK, summary, *({"role": ("user", "assistant")[n % 2], "content": STORY[n]} for n in range(4, 9)), **sessions),
        ]  # fmt: skip
        yield f"an earlier answer edited {said}", "content_changed", 0, CHATML, [
            chat(DESK, *STORY[:5], **sessions), chat(DESK, STORY[0], "It is late by an hour, sorry.", *STORY[2:7], **sessions),
        ]  # fmt: skip
        yield f"an earlier question corrected {said}", "content_changed", 0, CHATML, [
            chat(DESK, *STORY[:5], **sessions), chat(DESK, STORY[0].replace("ten", "nine"), *STORY[1:7], **sessions),
        ]  # fmt: skip
    for one, two in (
        ('{"quay": "B", "hour": 10}', '{"hour": 10, "quay": "B"}'),
        ('{"quay": "B", "hour": 10}', '{\n  "quay": "B",\n  "hour": 10\n}'),
        ('{"quay": "B", "stops": ["Nor\\u00f0h\\u00f6fn"]}', '{"quay": "B", "stops": ["Norðhöfn"]}'),
        ('{"quay":"B\\/C"}', '{"quay":"B/C"}'),
        ({"quay": "B", "hour": 10}, {"hour": 10, "quay": "B"}),
    ):
        yield f"arguments {one}", "tool_arguments_reserialized", 0, TOOLS, [
            chat(DESK, ASKED[0], call("boat_status", one), result("on time")),
            chat(DESK, ASKED[0], call("boat_status", two), result("on time"), {"role": "user", "content": "thanks"}),
        ]  # fmt: skip
    printing = TOOLS.replace("{% if m.content %}{{ m.content }}{% endif %}", "{{ m.content }}")
    for one, two in ((None, ""), ("", None), (None, []), ("", "absent"), ("absent", None)):
        messages = [call("boat_status", "{}", content=content) for content in (one, two)]
        for message in messages:
            if message["content"] == "absent":
                del message["content"]
        rows = [chat(DESK, ASKED[0], message, result("on time"), ASKED[1]) for message in messages]
        if (one, two) != ("", "absent"):  # both print nothing
            yield f"null {one!r} {two!r}", "null_content", 0, printing, rows
    spaced = CHATML.replace(
        "{{ m.content }}",
        "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}|{{ p.text }}{% endfor %}{% endif %}",
    )
    text = {"role": "user", "content": STORY[0]}
    parts = {"role": "user", "content": [{"type": "text", "text": STORY[0]}]}
    yield (
        "parts in the history",
        "content_format",
        0,
        spaced,
        [chat(DESK, text, *STORY[1:3]), chat(DESK, parts, *STORY[1:5])],
    )
    yield "a text again", "content_format", 0, spaced, [chat(DESK, parts, *STORY[1:3]), chat(DESK, text, *STORY[1:5])]
    for one, two in (
        (STORY[1] + "\n", STORY[1]),
        (STORY[1].replace("train and", "train\nand"), STORY[1]),
        (STORY[1].replace(" ", "\u00a0", 1), STORY[1]),
        ("\t" + STORY[1], "    " + STORY[1]),
        (STORY[1] + "\r\n\r\nAnything else?", STORY[1] + "\n\nAnything else?"),
    ):
        yield (
            f"white space {one!r}",
            "whitespace",
            0,
            CHATML,
            [chat(DESK, STORY[0], one, STORY[2]), chat(DESK, STORY[0], two, *STORY[2:5])],
        )
    yield (
        "white space at the end of the head",
        "whitespace",
        0,
        CHATML,
        [chat(DESK + "\n", STORY[0]), chat(DESK, STORY[2])],
    )


def thoughts() -> Iterator[Further]:
    user = {"role": "user", "content": STORY[0]}
    answer = {"role": "assistant", "content": STORY[1]}
    after = {"role": "user", "content": STORY[2]}
    thought = "The traveller asks about the boat at ten, so I look at the night train first."
    for key in ("reasoning", "reasoning_content"):
        template = KEEPS.replace("reasoning_content", key)
        yield f"client drops {key}", "reasoning_dropped", 0, template, [
            {"messages": [user, {**answer, key: thought}, after]},
            {"messages": [user, answer, after, {"role": "assistant", "content": STORY[3]}, {"role": "user", "content": STORY[4]}]},
        ]  # fmt: skip
    calls = {"role": "assistant", "content": "Let me look.", "reasoning_content": thought}
    found = {"role": "tool", "content": "late by 15"}
    yield "template drops", "reasoning_dropped", 0, DROPS, [
        {"messages": [user, calls, found]}, {"messages": [user, calls, found, answer, after]},
    ]  # fmt: skip
    inline = {"role": "assistant", "content": f"<think>\n{thought}\n</think>\n\n{STORY[1]}"}
    yield "think tags stripped", "reasoning_dropped", 0, CHATML, [
        {"messages": [user, inline, after]}, {"messages": [user, answer, after, {"role": "assistant", "content": "ok"}, user]},
    ]  # fmt: skip
    yield "think tags of the answer not sent back", "reasoning_dropped", 0, CHATML, [
        {"messages": [user], "response": f"<think>\n{thought}\n</think>\n\n{STORY[1]}"}, {"messages": [user, answer, after]},
    ]  # fmt: skip
    blocks = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": thought}, {"type": "text", "text": STORY[1]}],
    }
    bare = {"role": "assistant", "content": [{"type": "text", "text": STORY[1]}]}
    shows = PARTS.replace("<|{{ p.type }}|>", "<think>{{ p.thinking }}</think>")
    yield "thinking blocks dropped", "reasoning_dropped", 0, shows, [
        {"messages": [user, blocks, after]}, {"messages": [user, bare, after, {"role": "assistant", "content": "ok"}, user]},
    ]  # fmt: skip


def media() -> Iterator[Further]:
    def look(*names: str) -> dict[str, Any]:
        pictures = [
            {"type": "image_url", "image_url": {"url": f"https://pictures.example/{name}.png"}} for name in names
        ]
        return {
            "role": "user",
            "content": [*pictures, {"type": "text", "text": "Is my suitcase on one of these pictures?"}],
        }

    yield "another picture", "multimodal_content", 0, PARTS, [chat(DESK, look("a", "b")), chat(DESK, look("a", "c"))]
    yield "pictures swapped", "multimodal_content", 0, PARTS, [chat(DESK, look("a", "b")), chat(DESK, look("b", "a"))]
    yield "the same pictures", "rewound", 0, PARTS, [chat(DESK, look("a", "b")), chat(DESK, look("a", "b"))]


def templates() -> Iterator[Further]:
    for opening in ("<think>", "<think>\n\n</think>\n\n", "<|channel|>analysis<|message|>", "Answer:"):
        template = CHATML.replace("assistant\n{% endif %}", f"assistant\n{opening}{{% endif %}}")
        yield (
            f"generation prompt {opening}",
            "template_generation_prefix",
            0,
            template,
            [chat(DESK, *STORY[:3]), chat(DESK, *STORY[:5])],
        )
    effort = "Reasoning: {{ reasoning_effort or 'medium' }}\n" + CHATML
    yield (
        "effort",
        "template_kwargs",
        0,
        effort,
        [
            chat(DESK, ASKED[0], chat_template_kwargs={"reasoning_effort": "low"}),
            chat(DESK, ASKED[1], chat_template_kwargs={"reasoning_effort": "high"}),
        ],
    )
    at_the_end = CHATML.replace(
        "assistant\n{% endif %}",
        "assistant\n{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}",
    )
    yield "thinking switched off from the second turn on", "append_only", 0, at_the_end, [
        chat(DESK, *STORY[:1]), chat(DESK, *STORY[:3], chat_template_kwargs={"enable_thinking": False}),
    ]  # fmt: skip
    for form in ("%B %d, %Y", "%d.%m.%Y", "%A"):
        template = "It is {{ strftime_now('" + form + "') }}.\n" + CHATML
        yield f"template date {form}", "template_date", 0, template, [
            chat(DESK, ASKED[0], timestamp="2026-11-30T22:00:00Z"), chat(DESK, ASKED[1], timestamp="2026-12-01T06:00:00Z"),
        ]  # fmt: skip
    yield "the same day", "branched", 0, "It is {{ strftime_now('%d.%m.%Y') }}.\n" + CHATML, [
        chat(DESK, ASKED[0], timestamp="2026-11-30T06:00:00Z"), chat(DESK, ASKED[1], timestamp="2026-11-30T22:00:00Z"),
    ]  # fmt: skip


def separations() -> Iterator[Further]:
    ids = list(range(700, 900))
    one = {"prompt_token_ids": ids}
    yield (
        "tenants' salts",
        "cache_salt",
        1,
        None,
        [{**one, "cache_salt": "north"}, {**one, "cache_salt": "south"}, {**one, "cache_salt": "west"}],
    )
    yield (
        "another version of an adapter",
        "adapter",
        0,
        None,
        [{**one, "model": "aldis", "adapter": "desk@1"}, {**one, "model": "aldis", "adapter": "desk@2"}],
    )
    yield (
        "back to the base",
        "adapter",
        0,
        None,
        [{**one, "model": "aldis", "adapter": "desk"}, {**one, "model": "aldis"}],
    )
    yield (
        "switched to the larger model while talking",
        "model",
        0,
        None,
        [{**one, "model": "aldis-8"}, {"prompt_token_ids": [*ids, 1, 2, 3], "model": "aldis-70"}],
    )
    yield (
        "salted and fresh",
        "first_seen",
        None,
        None,
        [{**one, "cache_salt": "north"}, {"prompt_token_ids": list(range(2000, 2100)), "cache_salt": "south"}],
    )


def texts() -> Iterator[Further]:
    head = "### Instructions\n" + DESK + "\n### Question\n"
    yield (
        "a clock in a completion",
        "timestamp",
        0,
        CHATML,
        [{"prompt": "Now 08:00:01. " + head + ASKED[0]}, {"prompt": "Now 08:07:44. " + head + ASKED[1]}],
    )
    yield (
        "a date in a completion",
        "date",
        0,
        CHATML,
        [{"prompt": "30 November 2026. " + head + ASKED[0]}, {"prompt": "1 December 2026. " + head + ASKED[1]}],
    )
    yield (
        "a request id in a completion",
        "volatile_id",
        0,
        CHATML,
        [{"prompt": "req-8f3e11 " + head + ASKED[0]}, {"prompt": "req-02bd97 " + head + ASKED[1]}],
    )
    yield (
        "two starts",
        "special_tokens",
        0,
        CHATML,
        [{"prompt": "<s>" + head + ASKED[0]}, {"prompt": "<s><s>" + head + ASKED[0]}],
    )
    yield "another question", "branched", 0, CHATML, [{"prompt": head + ASKED[0]}, {"prompt": head + ASKED[1]}]
    yield (
        "longer",
        "append_only",
        0,
        CHATML,
        [{"prompt": head + ASKED[0]}, {"prompt": head + ASKED[0] + "\n### Answer\nYes.\n### Question\n" + ASKED[1]}],
    )


def controls() -> Iterator[Further]:
    dated = "Montag, 30. November 2026, 08:00:01. Case 8c1f5c2e-5d0b-4c63-9a57-7b1f0a7c9d10. " + DESK
    yield "dates that stay", "append_only", 1, CHATML, [chat(dated, *STORY[:n]) for n in (1, 3, 5)]
    marked = {"role": "user", "content": [{"type": "text", "text": STORY[0], "cache_control": {"type": "ephemeral"}}]}
    plain = {"role": "user", "content": [{"type": "text", "text": STORY[0]}]}
    yield "a cache mark moves on", "append_only", 0, PARTS, [chat(DESK, marked), chat(DESK, plain, *STORY[1:3])]
    yield (
        "a retry",
        "rewound",
        0,
        CHATML,
        [chat(DESK, *STORY[:3], request_id="a"), chat(DESK, *STORY[:3], request_id="b")],
    )
    yield "three retries", "rewound", 2, CHATML, [chat(DESK, *STORY[:3])] * 4
    yield (
        "regenerated answer",
        "rewound",
        0,
        CHATML,
        [chat(DESK, *STORY[:3]), chat(DESK, *STORY[:5]), chat(DESK, *STORY[:3])],
    )
    yield (
        "a fork",
        "append_only",
        0,
        CHATML,
        [chat(DESK, *STORY[:3]), chat(DESK, *STORY[:5]), chat(DESK, *STORY[:4], "Where are the lifeboats?")],
    )
    forked = (STORY[:3], STORY[:5], (*STORY[:4], "Where are the lifeboats?"))
    yield "a fork of a session", "branched", 1, CHATML, [chat(DESK, *turns, session_id="k") for turns in forked]
    yield (
        "the first question edited",
        "branched",
        1,
        CHATML,
        [chat(DESK, STORY[0]), chat(DESK, *STORY[:3]), chat(DESK, "Is the eleven o'clock boat on time?")],
    )
    yield (
        "another time in the question",
        "branched",
        0,
        CHATML,
        [chat(DESK, "Is there a boat at 10:15?"), chat(DESK, "Is there a boat at 11:45?")],
    )
    yield (
        "another booking in the question",
        "branched",
        0,
        CHATML,
        [chat(DESK, "Cancel booking LF-8f3e11."), chat(DESK, "Cancel booking LF-02bd97.")],
    )
    yield (
        "another day in the question",
        "branched",
        0,
        CHATML,
        [chat(DESK, "Boats on Montag, 30. November?"), chat(DESK, "Boats on Dienstag, 1. Dezember?")],
    )
    yield (
        "sampling options and a user",
        "rewound",
        0,
        CHATML,
        [
            chat(DESK, *STORY[:3], temperature=0),
            chat(DESK, *STORY[:3], temperature=1, seed=7, user="w-113", metadata={"run": "0be84d52"}, max_tokens=50),
        ],
    )
    yield "another tool result", "branched", 0, TOOLS, [
        chat(DESK, ASKED[0], call("boat_status", "{}"), result("2026-11-30 10:00 on time"), tools=BOATS),
        chat(DESK, ASKED[0], call("boat_status", "{}"), result("2026-11-30 10:09 late"), tools=BOATS),
    ]  # fmt: skip
    yield (
        "another use of the service",
        "first_seen",
        None,
        CHATML,
        [
            chat(DESK, ASKED[0]),
            chat("Summarise the harbour log in one line, no names.", "08:00 Aldis moored. 08:20 fog."),
        ],
    )
    yield (
        "an answer that was logged",
        "append_only",
        0,
        CHATML,
        [{**chat(DESK, STORY[0]), "response": STORY[1]}, chat(DESK, *STORY[:3])],
    )
    yield "two conversations in turn", "append_only", 1, CHATML, [
        chat(DESK, ASKED[1]), chat(DESK, ASKED[0]), chat(DESK, ASKED[1], "Deck seven.", "And the cafe?"), chat(DESK, ASKED[0], "It is.", "And back?"),
    ]  # fmt: skip
    yield "a prefilled answer goes on", "append_only", 0, CHATML, [
        chat(DESK, STORY[0], "It waits", continue_final_message=True, add_generation_prompt=False),
        chat(DESK, *STORY[:3]),
    ]  # fmt: skip
    yield "tools and a new turn", "append_only", 0, TOOLS, [
        chat(DESK, ASKED[0], tools=BOATS), chat(DESK, ASKED[0], call("boat_status", {"hour": 10}), result("late"), tools=BOATS),
    ]  # fmt: skip
    yield "a sub-agent between two turns", "append_only", 0, TOOLS, [
        chat(DESK, ASKED[0], tools=BOATS, session_id="x"),
        chat("You search the deck plans and answer in one word.", "lounge", session_id="x"),
        chat(DESK, ASKED[0], "It is.", ASKED[1], tools=BOATS, session_id="x"),
    ]  # fmt: skip


def all_further() -> list[Further]:
    kinds = (
        clocks, dates, ids, heads, tools, documents, histories, thoughts, media, templates, separations, texts, controls,
    )  # fmt: skip
    return [json.loads(json.dumps(one)) for kind in kinds for one in kind()]
