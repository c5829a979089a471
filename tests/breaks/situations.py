"""Situations of the kinds the vocabulary names, at least three per cause, and controls that must raise no alarm.

Every entry is (cause expected of the last request, template, requests). Earlier requests only set the scene.
"""

# ruff: noqa: E501  (prompts are easier to compare on one line)

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from tests.breaks.told import CHATML

Request = dict[str, Any]
Situation = tuple[str, str | None, list[Request]]

RULES = (
    "You are the support assistant of the Harbour Bakery. Answer in one short paragraph. Never invent prices. "
    "If you do not know, say so and offer to ask the baker."
)
TOOLS = (
    "{% if tools %}<|im_start|>tools\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content %}{{ m.content }}{% endif %}"
    '{% for c in m.tool_calls or [] %}<tool_call{% if ids %} id={{ c.id }}{% endif %}>{"name": {{ c.function.name | tojson }}, '
    '"arguments": {% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}'
    "{{ c.function.arguments | tojson }}{% endif %}}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WITH_IDS = TOOLS.replace("{% if ids %} id={{ c.id }}{% endif %}", " id={{ c.id }}")


def tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {key: {"type": kind, "description": f"The {key}."} for key, kind in properties.items()},
        "required": list(properties),
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


KIT = [
    tool("find_order", "Look up an order by its number.", number="integer"),
    tool("list_bread", "List the breads of a day.", day="string", shop="string"),
    tool("book_table", "Book a table in the cafe.", guests="integer", hour="string"),
]


def chat(system: str | None, *turns: Any, **fields: Any) -> Request:
    """A request: a system text, then user and assistant texts in turn; whole messages stay as they are."""
    messages: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]
    for number, turn in enumerate(turns):
        messages.append(
            turn if isinstance(turn, dict) else {"role": ("user", "assistant")[number % 2], "content": turn}
        )
    return {"messages": messages, **fields}


def call(name: str, arguments: Any, number: str = "call_1", content: Any = None) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": number, "type": "function", "function": function}],
    }


def result(content: str, number: str = "call_1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": number, "content": content}


def clocks() -> Iterator[Situation]:
    for one, two in (
        ("Current time is 20:37:19. ", "Current time is 20:37:52. "),
        ("Now: 2026-03-30T10:00:00Z\n", "Now: 2026-03-30T11:15:07Z\n"),
        ("[Mon Mar 30 10:00:00 2026] ", "[Mon Mar 30 10:00:09 2026] "),
        ("It is 9:59 AM. ", "It is 10:04 AM. "),
        ("ts=1774864800 ", "ts=1774868411 "),
        ("Time (ms): 1774864800123\n", "Time (ms): 1774864805555\n"),
        ("Stand: 30.03.2026 14:05 Uhr. ", "Stand: 30.03.2026 14:06 Uhr. "),
    ):
        yield "timestamp", CHATML, [chat(one + RULES, "When do you open?"), chat(two + RULES, "Do you sell rye?")]
        yield "timestamp", CHATML, [chat(RULES[:60] + one + RULES[60:], "a"), chat(RULES[:60] + two + RULES[60:], "b")]
    yield (
        "timestamp",
        CHATML,
        [
            chat(RULES, "[20:37] Do you bake rye bread?"),
            chat(RULES, "[20:41] Do you bake rye bread?", "Yes, on Tuesdays and Fridays.", "[20:41] And spelt?"),
        ],
    )
    yield (
        "timestamp",
        CHATML,
        [
            chat(RULES, "Status?", "One moment, I am looking.", "ok"),
            chat(RULES, "Status?", "One moment, I am looking.", "ok"),
            chat("Clock 08:00. " + RULES, "Status?"),
            chat("Clock 08:01. " + RULES, "Status?"),
        ],
    )
    kit = copy.deepcopy(KIT)
    kit[0]["function"]["description"] = "Look up an order. Database as of 2026-03-30 10:00:00."
    late = copy.deepcopy(kit)
    late[0]["function"]["description"] = "Look up an order. Database as of 2026-03-30 10:05:00."
    yield "timestamp", TOOLS, [chat(RULES, "a", tools=kit), chat(RULES, "b", tools=late)]


def dates() -> Iterator[Situation]:
    for one, two in (
        ("Today is 2026-03-30. ", "Today is 2026-03-31. "),
        ("Today is Monday, 30 March 2026. ", "Today is Tuesday, 31 March 2026. "),
        ("Date: March 30, 2026\n", "Date: April 1, 2026\n"),
        ("Heute ist der 30.03.2026. ", "Heute ist der 31.03.2026. "),
        ("Today: 03/30/2026. ", "Today: 03/31/2026. "),
        ("It is Monday. ", "It is Wednesday. "),
    ):
        yield "date", CHATML, [chat(one + RULES, "When do you open?"), chat(two + RULES, "Do you sell rye?")]
        yield "date", CHATML, [chat(f"{RULES}\n{one}\n{RULES}", "a"), chat(f"{RULES}\n{two}\n{RULES}", "b")]


def ids() -> Iterator[Situation]:
    for one, two in (
        ("Request 3f2a77c0-9d3e-4b1a-8c55-0a1b2c3d4e5f. ", "Request b1946ac9-2492-4d3e-9f5a-6c7d8e9f0a1b. "),
        ("trace=5a287ca530a2 ", "trace=a7966a701bc3 "),
        ("x-billing: cch=00af3; ", "x-billing: cch=9b1e7; "),
        ("Session nonce: kqzjvx. ", "Session nonce: pwtrbg. "),
        ("Request #1041. ", "Request #1042. "),
        ("key sk-AbCdEfGh12345678 ", "key sk-ZyXwVuTs87654321 "),
        ("[run 7] ", "[run 8] "),
    ):
        yield "volatile_id", CHATML, [chat(one + RULES, "When do you open?"), chat(two + RULES, "Do you sell rye?")]
    for one, two in (
        ("call_9f2c", "call_71ab"),
        ("toolu_01AbC", "toolu_77XyZ"),
        ("chatcmpl-tool-1a2b3c", "chatcmpl-tool-9z8y7x"),
    ):
        story = [
            chat(
                RULES,
                "Where is order 7?",
                call("find_order", '{"number": 7}', number),
                result("on its way", number),
                *more,
                tools=KIT,
            )
            for number, more in ((one, ()), (two, ({"role": "user", "content": "go on"},)))
        ]
        yield "volatile_id", WITH_IDS, story


def tools() -> Iterator[Situation]:
    def pair(new: Any, old: Any = KIT) -> list[Request]:
        return [chat(RULES, "one", tools=copy.deepcopy(old)), chat(RULES, "two", tools=new)]

    yield "tools_reordered", TOOLS, pair([KIT[1], KIT[0], KIT[2]])
    yield "tools_reordered", TOOLS, pair([KIT[2], KIT[0], KIT[1]])
    yield "tools_reordered", TOOLS, pair([KIT[0], KIT[2], KIT[1]])
    flat = [{"name": one["function"]["name"], "input_schema": one["function"]["parameters"]} for one in KIT]
    yield "tools_reordered", TOOLS, pair([flat[1], flat[2], flat[0]], flat)
    for depth in range(3):
        other = copy.deepcopy(KIT)
        function = other[depth]["function"]
        if depth == 0:
            other[0]["function"] = dict(reversed(function.items()))
        elif depth == 1:
            function["parameters"] = dict(reversed(function["parameters"].items()))
        else:
            properties = function["parameters"]["properties"]
            function["parameters"]["properties"] = dict(reversed(properties.items()))
        yield "tool_schema_key_order", TOOLS, pair(other)
    edited = copy.deepcopy(KIT)
    edited[1]["function"]["description"] = "List all breads of a day and their prices."
    yield "tools_changed", TOOLS, pair(KIT[:2])
    yield "tools_changed", TOOLS, pair([*KIT, tool("say_goodbye", "End the talk.")])
    yield "tools_changed", TOOLS, pair([tool("say_goodbye", "End the talk."), *KIT])
    yield "tools_changed", TOOLS, pair(edited)
    yield "tools_changed", TOOLS, [chat(RULES, "one", tools=KIT), chat(RULES, "two")]


PASSAGES = (
    "Rye is baked on Tuesdays and Fridays.",
    "Orders close at 18:00 the day before.",
    "Spelt rolls are sold from eight in the morning.",
)


def documents() -> Iterator[Situation]:
    for mark in ("[doc {}] {}", "<document index={}>{}</document>", "Document {}: {}", "[{}]\n{}\n", "- {1}"):
        one, two = ("\n".join(mark.format(n + 1, PASSAGES[n]) for n in order) for order in ((0, 1, 2), (2, 0, 1)))
        yield "documents_reordered", CHATML, [chat(f"{RULES}\n{one}", "Rye?"), chat(f"{RULES}\n{two}", "Rye?")]
        yield (
            "documents_reordered",
            CHATML,
            [
                chat(RULES, f"Use only these:\n{one}\n\nQuestion: Do you sell rye?"),
                chat(RULES, f"Use only these:\n{two}\n\nQuestion: And spelt?"),
            ],
        )
    one, two = (
        "\n".join(f"[{place}] {PASSAGES[n]}" for place, n in enumerate(order)) for order in ((0, 1, 2), (1, 2, 0))
    )
    yield "documents_reordered", CHATML, [chat(f"{RULES}\n{one}\n{RULES}", "a"), chat(f"{RULES}\n{two}\n{RULES}", "b")]
    template = "{% for d in documents %}[{{ d.title }}] {{ d.text }}\n{% endfor %}" + CHATML
    papers = [{"title": str(n), "text": text} for n, text in enumerate(PASSAGES)]
    yield (
        "documents_reordered",
        template.replace("documents", "documents or []"),
        [chat(RULES, "a", documents=papers), chat(RULES, "b", documents=papers[::-1])],
    )


TURNS = (
    "Do you bake rye?",
    "Yes, on Tuesdays and Fridays.",
    "And spelt?",
    "Spelt is baked daily.",
    "Price of rye?",
    "4.20 a loaf.",
    "And rolls?",
)


def histories() -> Iterator[Situation]:
    for dropped in (2, 4):
        yield "history_truncated", CHATML, [chat(RULES, *TURNS[:5]), chat(RULES, *TURNS[dropped:7])]
    yield "history_truncated", CHATML, [chat(None, *TURNS[:5]), chat(None, *TURNS[2:7])]
    yield (
        "history_truncated",
        CHATML,
        [
            chat(RULES, *TURNS[:5]),
            chat(RULES, "Summary of the earlier conversation: rye on two days.", "Understood.", *TURNS[4:7]),
        ],
    )
    yield (
        "history_truncated",
        CHATML,
        [chat(RULES, *TURNS[:5], session_id="s"), chat(RULES, *TURNS[2:7], session_id="s")],
    )
    for one, two in (
        ('{"number": 7, "shop": "north"}', '{"number":7,"shop":"north"}'),
        ('{"number": 7, "shop": "north"}', '{"shop": "north", "number": 7}'),
        ('{"number": 7, "shop": "n\\u00f6rd"}', '{"number": 7, "shop": "nörd"}'),
    ):
        first, second = call("find_order", one), call("find_order", two)
        yield (
            "tool_arguments_reserialized",
            TOOLS,
            [
                chat(RULES, "Where is 7?", first, result("on its way")),
                chat(RULES, "Where is 7?", second, result("on its way"), {"role": "user", "content": "go on"}),
            ],
        )
    printing = TOOLS.replace("{% if m.content %}{{ m.content }}{% endif %}", "{{ m.content }}")
    for one, two in ((None, ""), ("", None), (None, "absent")):
        messages = [call("find_order", "{}", content=one), call("find_order", "{}", content=two)]
        if two == "absent":
            del messages[1]["content"]
        rows = [chat(RULES, "Where?", message, result("there")) for message in messages]
        yield "null_content", printing, rows
    joined = CHATML.replace(
        "{{ m.content }}",
        "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}\n{% endfor %}{% endif %}",
    )
    text = "Plan a menu for ten guests. Two of them eat no wheat at all, one is a child."
    parts = [{"type": "text", "text": text[:27]}, {"type": "text", "text": text[27:]}]
    yield (
        "content_format",
        joined,
        [chat(RULES, text), chat(RULES, {"role": "user", "content": [{"type": "text", "text": text}]})],
    )
    yield (
        "content_format",
        joined,
        [
            chat(RULES, {"role": "user", "content": [{"type": "text", "text": text}]}),
            chat(RULES, {"role": "user", "content": parts}),
        ],
    )
    yield (
        "content_format",
        joined,
        [
            chat(RULES, text, "Gladly.", "ok"),
            chat(RULES, {"role": "user", "content": parts}, "Gladly.", "ok", "Thanks.", "bye"),
        ],
    )
    yield (
        "content_format",
        joined,
        [
            chat(RULES, "a"),
            chat(
                None, {"role": "system", "content": [{"type": "text", "text": RULES}]}, {"role": "user", "content": "b"}
            ),
        ],
    )


def spaces() -> Iterator[Situation]:
    for one, two in (
        ("Yes, on Tuesdays. ", "Yes, on Tuesdays."),
        ("Yes,\non Tuesdays.", "Yes,\r\non Tuesdays."),
        ("Yes, on  Tuesdays.", "Yes, on Tuesdays."),
        ("\nYes, on Tuesdays.", "Yes, on Tuesdays."),
    ):
        yield (
            "whitespace",
            CHATML,
            [chat(RULES, "Rye?", one, "And spelt?"), chat(RULES, "Rye?", two, "And spelt?", "Daily.", "ok")],
        )
    yield "whitespace", CHATML, [chat(RULES, "a"), chat(RULES.replace(". ", ".  ", 1), "b")]
    yield "whitespace", CHATML, [chat(RULES.replace(". ", ".\n"), "a"), chat(RULES.replace(". ", ".\r\n"), "b")]
    yield (
        "whitespace",
        CHATML,
        [
            {**chat(RULES, "Rye?"), "response": "Yes,  on Tuesdays and on Fridays."},
            chat(RULES, "Rye?", "Yes, on Tuesdays and on Fridays.", "ok"),
        ],
    )


THINKING = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and m.reasoning_content and KEEP %}<think>\n"
    "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
DROPS, KEEPS = THINKING.replace("KEEP", "loop.index0 > ns.last"), THINKING.replace("KEEP", "true")


def thoughts() -> Iterator[Situation]:
    def answer(text: str, thought: str | None) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        return message if thought is None else {**message, "reasoning_content": thought}

    user, looked = {"role": "user", "content": "Count the loaves."}, {"role": "tool", "content": "41"}
    for thought in ("The user wants a count.", "First the counter.\nThen the shelf.", "Hm."):
        called = answer("I will call the counter.", thought)
        more = [answer("There are 41.", None), {"role": "user", "content": "And rolls?"}]
        yield (
            "reasoning_dropped",
            DROPS,
            [{"messages": [user, called, looked]}, {"messages": [user, called, looked, *more]}],
        )
        bare = answer("I will call the counter.", None)
        yield (
            "reasoning_dropped",
            KEEPS,
            [{"messages": [user, called, looked]}, {"messages": [user, bare, looked, *more]}],
        )
        inline = {"role": "assistant", "content": f"<think>{thought}</think>\n\nI will call the counter."}
        yield (
            "reasoning_dropped",
            CHATML,
            [{"messages": [user, inline, looked]}, {"messages": [user, bare, looked, *more]}],
        )
    spoken = "<think>\nThe user wants a count.\n</think>\n\nThere are 41 loaves on the shelf."
    yield (
        "reasoning_dropped",
        CHATML,
        [
            {"messages": [user], "response": spoken},
            {"messages": [user, answer("There are 41 loaves on the shelf.", None), {"role": "user", "content": "ok"}]},
        ],
    )


def templates() -> Iterator[Situation]:
    for opening in ("<think>\n", "<think>\n\n</think>\n\n", "<|channel|>final<|message|>"):
        template = CHATML.replace("assistant\n{% endif %}", f"assistant\n{opening}{{% endif %}}")
        yield "template_generation_prefix", template, [chat(RULES, "Rye?"), chat(RULES, "Rye?", "Yes.", "And spelt?")]
    option = (
        "{% if enable_thinking is defined and enable_thinking %}Think first.\n{% endif %}Effort: {{ effort or 'low' }}\n"
        + CHATML
    )
    for kwargs in ({"enable_thinking": True}, {"effort": "high"}, {"enable_thinking": True, "effort": "high"}):
        yield "template_kwargs", option, [chat(RULES, "a"), chat(RULES, "b", chat_template_kwargs=kwargs)]
    for form, one, two in (
        ("%d %b %Y", "2026-03-30T10:00:00Z", "2026-03-31T10:00:00Z"),
        ("%Y-%m-%d", "2026-03-30T10:00:00Z", "2026-04-02T10:00:00Z"),
        ("%A, %B %d %Y %H:%M", "2026-03-30T10:00:00Z", "2026-03-30T10:05:00Z"),
        ("%H:%M:%S", "2026-03-30T10:00:00Z", "2026-03-30T10:05:00Z"),
    ):
        template = "Today Date: {{ strftime_now('" + form + "') }}\n\n" + CHATML
        yield "template_date", template, [chat(RULES, "a", timestamp=one), chat(RULES, "b", timestamp=two)]
    for other in (
        RULES + " Remember: the shop closes early today.",
        "Be very brief. " + RULES,
        RULES.replace("one short paragraph", "two sentences"),
    ):
        yield "system_variant", CHATML, [chat(RULES, "a"), chat(other, "b")]
    default = CHATML.replace(
        "{% for m in messages %}",
        "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}{% for m in messages %}",
        1,
    )
    yield (
        "system_variant",
        default,
        [
            chat(None, "Tell me about rye bread and how it is baked.", session_id="s"),
            chat(
                "You are a helpful assistant. Be brief.", "Tell me about rye bread and how it is baked.", session_id="s"
            ),
        ],
    )
    for edit in (
        ("Tuesdays and Fridays", "Mondays"),
        ("Yes, on", "No, but on"),
        ("Fridays.", "Fridays. Ask for the seeded one."),
    ):
        yield (
            "content_changed",
            CHATML,
            [chat(RULES, *TURNS[:3]), chat(RULES, TURNS[0], TURNS[1].replace(*edit), *TURNS[2:5])],
        )


def media() -> Iterator[Situation]:
    template = CHATML.replace(
        "{{ m.content }}",
        "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% else %}<image>{% endif %}{% endfor %}{% endif %}",
    )

    def look(url: str, text: str = "What is on this picture of the shelf?", kind: str = "image_url") -> dict[str, Any]:
        return {"role": "user", "content": [{"type": kind, kind: {"url": url}}, {"type": "text", "text": text}]}

    yield "multimodal_content", template, [chat(RULES, look("a.png")), chat(RULES, look("b.png"))]
    yield (
        "multimodal_content",
        template,
        [chat(RULES, look("a.png"), "A loaf.", "ok"), chat(RULES, look("b.png"), "A loaf.", "ok", "Fine.", "bye")],
    )
    yield (
        "multimodal_content",
        template,
        [chat(RULES, look("a.wav", kind="input_audio")), chat(RULES, look("b.wav", kind="input_audio"))],
    )


def token_ids() -> Iterator[Situation]:
    head, tail = list(range(100, 164)), list(range(500, 530))
    for added, gone in (([271], [198, 198]), ([198, 198], [271]), ([11, 12, 13], [14, 15])):
        yield (
            "retokenization",
            None,
            [
                {"prompt_token_ids": head, "output_token_ids": [*gone, *tail]},
                {"prompt_token_ids": [*head, *added, *tail, 900, 901, 902]},
            ],
        )
    body = list(range(10, 74))
    yield "special_tokens", None, [{"prompt_token_ids": [1, *body]}, {"prompt_token_ids": [1, 1, *body]}]
    yield "special_tokens", None, [{"prompt_token_ids": [1, 1, *body]}, {"prompt_token_ids": [1, *body]}]
    yield "special_tokens", None, [{"prompt_token_ids": [1, *body]}, {"prompt_token_ids": body}]
    yield "special_tokens", None, [{"prompt_token_ids": body}, {"prompt_token_ids": [1, *body]}]


def separations() -> Iterator[Situation]:
    same, longer = list(range(1, 51)), list(range(1, 90))
    for ids in (same, longer, list(range(7, 1000))):
        yield (
            "cache_salt",
            None,
            [{"prompt_token_ids": ids, "cache_salt": "red"}, {"prompt_token_ids": ids, "cache_salt": "blue"}],
        )
        yield "cache_salt", None, [{"prompt_token_ids": ids, "cache_salt": "red"}, {"prompt_token_ids": [*ids, 5000]}]
        yield (
            "model",
            None,
            [{"prompt_token_ids": ids, "model": "m-small"}, {"prompt_token_ids": ids, "model": "m-large"}],
        )
        yield (
            "adapter",
            None,
            [{"prompt_token_ids": ids, "model": "m"}, {"prompt_token_ids": ids, "model": "m", "adapter": "v2"}],
        )
        yield "prompt_logprobs", None, [{"prompt_token_ids": ids}, {"prompt_token_ids": ids, "prompt_logprobs": 0}]


def controls() -> Iterator[Situation]:
    dated = "Today is Monday, 30 March 2026, 20:37:19. Request 5a287ca530a2. " + RULES
    yield "append_only", CHATML, [chat(dated, *TURNS[:1]), chat(dated, *TURNS[:3])]
    yield "append_only", CHATML, [chat(RULES, *TURNS[:3]), chat(RULES, *TURNS[:5])]
    yield (
        "append_only",
        TOOLS,
        [
            chat(RULES, "Where is 7?", tools=KIT),
            chat(RULES, "Where is 7?", call("find_order", '{"number": 7}'), result("there"), tools=KIT),
        ],
    )
    yield (
        "append_only",
        CHATML,
        [{**chat(RULES, "Rye?"), "response": "Yes, on Tuesdays."}, chat(RULES, "Rye?", "Yes, on Tuesdays.", "ok")],
    )
    yield "rewound", CHATML, [chat(RULES, *TURNS[:5]), chat(RULES, *TURNS[:3])]
    yield "rewound", CHATML, [chat(RULES, "Rye?"), chat(RULES, "Rye?")]
    yield (
        "rewound",
        CHATML,
        [chat(RULES, "Rye?"), chat(RULES, "Rye?", user="someone", temperature=0.7, metadata={"trace": "5a28"})],
    )
    yield "branched", CHATML, [chat(dated, "Is a table free at 20:37?"), chat(dated, "Is a table free at 18:00?")]
    yield "branched", CHATML, [chat(dated, "Where is order 4711?"), chat(dated, "Where is order 4712?")]
    yield "branched", CHATML, [chat(RULES, *TURNS[:5]), chat(RULES, *TURNS[:2], "Something else: do you have cake?")]
    yield "branched", CHATML, [chat(RULES, "What happened on 2026-03-30?"), chat(RULES, "What happened on 2026-03-31?")]
    yield "branched", TOOLS, [chat(RULES, "one", tools=KIT), chat(RULES, "two", tools=KIT)]
    yield (
        "branched",
        CHATML,
        [
            chat(RULES, "\n".join(PASSAGES) + "\n\nDo you sell rye?"),
            chat(RULES, "\n".join(PASSAGES) + "\n\nAnd spelt?"),
        ],
    )
    yield (
        "first_seen",
        CHATML,
        [
            chat(RULES, "Rye?"),
            chat("Translate what the user writes into French, keeping names.", "Guten Morgen, Frau Weber!"),
        ],
    )
    yield "first_seen", None, [{"prompt_token_ids": list(range(50))}, {"prompt_token_ids": list(range(1000, 1060))}]
    yield "append_only", None, [{"prompt_token_ids": list(range(50))}, {"prompt_token_ids": list(range(60))}]


def all_situations() -> list[Situation]:
    kinds = (
        clocks, dates, ids, tools, documents, histories, spaces, thoughts, templates, media, token_ids, separations, controls,
    )  # fmt: skip
    return [json.loads(json.dumps(one)) for kind in kinds for one in kind()]
