"""Faults planted into real conversations: public agent and chat logs, rendered with real templates.

Every planter takes the turns of one session (request bodies, each with the whole history) and gives them back with a
fault, and the numbers of the turns that must be explained by it. All choices come from one seeded generator.
"""

# ruff: noqa: E501  (prompts are easier to compare on one line)

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from tests.real_tokenizers import templates, tokenizer_folder
from tests.shared import SHARED

Turns = list[dict[str, Any]]
Planted = tuple[Turns, set[int]]
AGENT = SHARED / "traces" / "tau_airline_gpt4o_chat.jsonl.gz"
CHAT = SHARED / "traces" / "mtbench101_chat.jsonl.gz"

SYSTEMS = (
    "You are a careful assistant. Answer what is asked, in the language it is asked in. Say so when you do not know. "
    "Keep to the facts that the user gave, and ask back when something is missing. Do not use lists unless asked.",
    "You help people with short questions of every kind. Be friendly and brief. Never make up numbers or names.\n"
    "If a question is dangerous, say what to do first and then whom to call.\nUse metric units throughout.",
)


@cache
def sessions(path: Path, least: int = 2) -> tuple[Turns, ...]:
    """The sessions of a log with at least so many turns, turns in order. Never changed in place."""
    found: dict[str, Turns] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            found.setdefault(row["session_id"], []).append(row["request"])
    for turns in found.values():
        turns.sort(key=lambda body: len(body["messages"]))
    return tuple(turns for turns in found.values() if len(turns) >= least)


def with_system(turns: Turns, rng: random.Random) -> Turns:
    """Every turn with a system prompt, its own or one of a few."""
    system = rng.choice(SYSTEMS)
    copied = copy.deepcopy(turns)
    for body in copied:
        if body["messages"][0]["role"] != "system":
            body["messages"].insert(0, {"role": "system", "content": system})
    return copied


def into_system(turns: Turns, rng: random.Random, value: Callable[[int], str]) -> Planted:
    """A text that differs in every turn, at one place of the system prompt."""
    turns = with_system(turns, rng)
    system = turns[0]["messages"][0]["content"]
    breaks = [0, *(place + 1 for place, sign in enumerate(system[: len(system) * 2 // 3]) if sign == "\n")]
    place = rng.choice(breaks)
    for number, body in enumerate(turns):
        body["messages"][0]["content"] = system[:place] + value(number) + system[place:]
    return turns, set(range(1, len(turns)))


CLOCKS = (
    ("Current time: {}\n", "%H:%M:%S"), ("It is now {}. ", "%Y-%m-%d %H:%M:%S"), ("[{}] ", "%Y-%m-%dT%H:%M:%SZ"),
    ("Now: {}.\n", "%A, %d %B %Y %H:%M:%S"), ("time={} ", "%d.%m.%Y %H:%M:%S"), ("Local time is {}. ", "%I:%M:%S %p"),
)  # fmt: skip
DATES = (
    ("Today is {}.\n", "%Y-%m-%d"), ("Date: {}. ", "%d %B %Y"), ("Today's date is {}. ", "%A, %B %d, %Y"),
    ("[{}] ", "%m/%d/%Y"), ("Stand {}. ", "%d.%m.%Y"),
)  # fmt: skip


def _moment(rng: random.Random) -> datetime:
    return datetime(2026, 1, 1) + timedelta(seconds=rng.randrange(86400 * 300))


def timestamp(turns: Turns, rng: random.Random) -> Planted:
    start, (words, form) = _moment(rng), rng.choice(CLOCKS)
    return into_system(turns, rng, lambda n: words.format((start + timedelta(seconds=37 * n)).strftime(form)))


def epoch(turns: Turns, rng: random.Random) -> Planted:
    start = rng.randrange(1_700_000_000, 1_790_000_000)
    return into_system(turns, rng, lambda n: f"ts: {start + 41 * n}\n")


def clock(turns: Turns, rng: random.Random) -> Planted:
    return (epoch if rng.random() < 0.2 else timestamp)(turns, rng)


def date(turns: Turns, rng: random.Random) -> Planted:
    start, (words, form) = _moment(rng), rng.choice(DATES)
    return into_system(turns, rng, lambda n: words.format((start + timedelta(days=n)).strftime(form)))


def volatile_id(turns: Turns, rng: random.Random) -> Planted:
    kind = rng.randrange(5)
    counter = rng.randrange(1000, 90000)

    def value(number: int) -> str:
        bits = rng.getrandbits(128)
        return (
            f"Request id: {bits:032x}\n"[:33] + "\n", f"session {bits:032x}"[:24] + ". ", f"[trace={bits % 10**12:012x}] ",
            f"Request #{counter + number}. ",
            f"{bits & 0xFFFFFFFF:08x}-{bits >> 40 & 0xFFFF:04x}-4{bits >> 60 & 0xFFF:03x}-9{bits >> 80 & 0xFFF:03x}-{bits >> 70 & 0xFFFFFFFFFFFF:012x} ",
        )[kind]  # fmt: skip

    return into_system(turns, rng, value)


def later(turns: Turns, rng: random.Random, change: Callable[[dict[str, Any]], bool]) -> Planted:
    """A change of every body from one turn on; False from the change means that this body could not be changed."""
    turns = copy.deepcopy(turns)
    first = rng.randrange(1, len(turns))
    done = [change(body) for body in turns[first:]]  # every body is changed, also behind one that can't be
    if not all(done):
        return turns, set()
    return turns, {first}


def system_variant(turns: Turns, rng: random.Random) -> Planted:
    turns = with_system(turns, rng)
    reminder = rng.choice(("Remember to be brief.", "Do not mention other companies.", "The user prefers plain words."))
    at_end = rng.random() < 0.5

    def change(body: dict[str, Any]) -> bool:
        system = body["messages"][0]
        system["content"] = f"{system['content']}\n{reminder}" if at_end else f"{reminder}\n{system['content']}"
        return True

    return later(turns, rng, change)


def tools_reordered(turns: Turns, rng: random.Random) -> Planted:
    order = list(range(len(turns[0]["tools"])))
    while order == sorted(order):
        rng.shuffle(order)

    def change(body: dict[str, Any]) -> bool:
        body["tools"] = [body["tools"][place] for place in order]
        return True

    return later(turns, rng, change)


def tool_schema_key_order(turns: Turns, rng: random.Random) -> Planted:
    number = rng.randrange(len(turns[0]["tools"]))

    def change(body: dict[str, Any]) -> bool:
        function = body["tools"][number]["function"]
        parameters = function["parameters"]
        if len(parameters.get("properties", {})) > 1 and rng_choice:
            parameters["properties"] = dict(reversed(parameters["properties"].items()))
        else:
            function["parameters"] = dict(reversed(parameters.items()))
        return True

    rng_choice = rng.random() < 0.5
    return later(turns, rng, change)


def tools_changed(turns: Turns, rng: random.Random) -> Planted:
    kind, number = rng.randrange(3), rng.randrange(len(turns[0]["tools"]))

    def change(body: dict[str, Any]) -> bool:
        tools = body["tools"]
        if kind == 0:
            del tools[number]
        elif kind == 1:
            other = copy.deepcopy(tools[0])
            other["function"]["name"] = "rate_the_talk"
            tools.insert(number, other)
        else:
            tools[number]["function"]["description"] += " Use it only once."
        return True

    return later(turns, rng, change)


def documents_reordered(turns: Turns, rng: random.Random) -> Planted:
    turns = with_system(turns, rng)
    texts = [
        text
        for body in turns
        for text in (message.get("content") for message in body["messages"])
        if isinstance(text, str)
    ]
    passages = list(dict.fromkeys(" ".join(text.split())[:240] for text in texts if len(text) > 60))[:6]
    if len(passages) < 3:
        return turns, set()
    mark = rng.choice(("[{}] {}", "Document {}: {}", "<doc id={}>{}</doc>"))
    numbers = list(range(len(passages)))
    first = rng.randrange(1, len(turns))
    shuffled = numbers[:]
    while shuffled == numbers:
        rng.shuffle(shuffled)
    relabel = rng.random() < 0.5
    for turn, body in enumerate(turns):
        order = shuffled if turn >= first else numbers
        block = "\n".join(
            mark.format(1 + (place if relabel else number), passages[number]) for place, number in enumerate(order)
        )
        body["messages"][0]["content"] += f"\n{block}\nUse the passages above where they help."
    return turns, {first}


def history_truncated(turns: Turns, rng: random.Random) -> Planted:
    turns = copy.deepcopy(turns)
    if len(turns) < 3:
        return turns, set()
    first = rng.randrange(2, len(turns))
    for body in turns[first:]:
        messages = body["messages"]
        head = 1 if messages[0]["role"] == "system" else 0
        users = [place for place, message in enumerate(messages) if message["role"] == "user"]
        if len(users) < 3:
            return turns, set()
        rest = messages[users[1] :]
        summary = {
            "role": "user",
            "content": "Summary of the earlier conversation: the user asked for help and got it.",
        }
        body["messages"] = messages[:head] + ([summary] if first % 2 else []) + rest
    before = turns[first - 1]["messages"]
    return turns, {first} if any(message in before for message in turns[first]["messages"][2:]) else set()


def tool_arguments(turns: Turns, rng: random.Random) -> Planted:
    return _tool_arguments(turns, rng, spaces=rng.random() < 0.5)


def tool_argument_order(turns: Turns, rng: random.Random) -> Planted:
    """Other white space does not reach a prompt where the server parses arguments; another order does."""
    return _tool_arguments(turns, rng, spaces=False)


def _tool_arguments(turns: Turns, rng: random.Random, *, spaces: bool) -> Planted:
    def change(message: dict[str, Any]) -> bool:
        for call in message.get("tool_calls") or ():
            text = call["function"]["arguments"]
            value = json.loads(text)
            if spaces:
                other = json.dumps(value, separators=(",", ":") if ": " in text else (", ", ": "), ensure_ascii=False)
            else:
                other = json.dumps(dict(reversed(value.items())), ensure_ascii=False)
            if other != text and (spaces or len(value) > 1):
                call["function"]["arguments"] = other
                return True
        return False

    return _earlier(turns, rng, ("assistant",), change)


def _earlier(
    turns: Turns, rng: random.Random, roles: tuple[str, ...], change: Callable[[dict[str, Any]], bool]
) -> Planted:
    """A change of one message that the turn before already had, from one turn on."""
    turns = copy.deepcopy(turns)
    first = rng.randrange(1, len(turns))
    places = [
        place for place, message in enumerate(turns[first - 1]["messages"])
        if message["role"] in roles and turns[first]["messages"][place] == message
    ]  # fmt: skip
    rng.shuffle(places)
    for place in places:
        done = [change(body["messages"][place]) for body in turns[first:]]
        if all(done):
            return turns, {first}
    return turns, set()


def whitespace(turns: Turns, rng: random.Random) -> Planted:
    kind = rng.randrange(3)

    def change(message: dict[str, Any]) -> bool:
        text = message.get("content")
        if not isinstance(text, str) or " " not in text.strip() or text != text.strip():
            return False
        middle = text.index(" ", len(text) // 3) if " " in text[len(text) // 3 :] else text.index(" ")
        message["content"] = (
            text + " ",
            text[:middle] + " " + text[middle:],
            text[:middle] + "\n" + text[middle + 1 :],
        )[kind]
        return True

    return _earlier(turns, rng, ("assistant", "user"), change)


def null_content(turns: Turns, rng: random.Random) -> Planted:
    def change(message: dict[str, Any]) -> bool:
        if not message.get("tool_calls") or message.get("content"):
            return False
        message["content"] = "" if message.get("content") is None else None
        return True

    return _earlier(turns, rng, ("assistant",), change)


def content_format(turns: Turns, rng: random.Random) -> Planted:
    def change(message: dict[str, Any]) -> bool:
        text = message.get("content")
        if not isinstance(text, str) or len(text) < 40:
            return False
        middle = text.index(" ", 20) if " " in text[20:] else 20
        message["content"] = [{"type": "text", "text": text[:middle]}, {"type": "text", "text": text[middle:]}]
        return True

    return _earlier(turns, rng, ("user",), change)


def content_changed(turns: Turns, rng: random.Random) -> Planted:
    def change(message: dict[str, Any]) -> bool:
        text = message.get("content")
        words = text.split(" ") if isinstance(text, str) else []
        if len(words) < 12:
            return False
        place = len(words) // 2
        message["content"] = " ".join([*words[:place], "perhaps", "rather", *words[place + 1 :]])
        return True

    return _earlier(turns, rng, ("assistant",), change)


THOUGHTS = ("The user asks for something simple.", "First look at what is known.\nThen answer.", "This needs care.")


def reasoning_client(turns: Turns, rng: random.Random) -> Planted:
    """Think text inside the content of an assistant turn, gone from one turn on."""
    turns = copy.deepcopy(turns)
    first = rng.randrange(1, len(turns))
    places = [
        place for place, m in enumerate(turns[first - 1]["messages"]) if m["role"] == "assistant" and m.get("content")
    ]
    if not places:
        return turns, set()
    place, thought = rng.choice(places), rng.choice(THOUGHTS)
    for body in turns[:first]:
        if len(body["messages"]) > place:
            message = body["messages"][place]
            message["content"] = f"<think>\n{thought}\n</think>\n\n{message['content']}"
    return turns, {first}


def reasoning_template(turns: Turns, rng: random.Random) -> Planted:
    """Every assistant turn carries its reasoning; Qwen3 drops it when a new user turn comes after tool steps."""
    turns = copy.deepcopy(turns)
    for body in turns:
        for place, message in enumerate(body["messages"]):
            if message["role"] == "assistant":
                message["reasoning_content"] = f"{THOUGHTS[place % 3]} Step {place}."
    planted = set()
    for number in range(1, len(turns)):
        before, now = turns[number - 1]["messages"], turns[number]["messages"]
        if before[-1]["role"] == "tool" and now[-1]["role"] == "user":
            planted.add(number)
    return turns, planted


def every_turn(turns: Turns, rng: random.Random) -> Planted:
    """Nothing is changed in the bodies: the template itself breaks every turn that follows an answer."""
    del rng
    planted = {
        n for n in range(1, len(turns)) if turns[n]["messages"][len(turns[n - 1]["messages"])]["role"] == "assistant"
    }
    return copy.deepcopy(turns), planted


def next_day(turns: Turns, rng: random.Random) -> Planted:
    turns = copy.deepcopy(turns)
    first, moment = rng.randrange(1, len(turns)), _moment(rng).replace(hour=12)
    for number, body in enumerate(turns):
        body["timestamp"] = (moment + timedelta(days=number >= first, seconds=number)).isoformat() + "Z"
    return turns, {first}


def template_kwargs(turns: Turns, rng: random.Random) -> Planted:
    value = rng.choice(("low", "high"))
    return later(
        turns, rng, lambda body: body.setdefault("chat_template_kwargs", {}).update(reasoning_effort=value) is None
    )


def special_tokens(turns: Turns, rng: random.Random) -> Planted:
    return later(turns, rng, lambda body: body.update(add_special_tokens=True) is None)


def multimodal(turns: Turns, rng: random.Random) -> Planted:
    turns = copy.deepcopy(turns)
    first = rng.randrange(1, len(turns))
    place = next(n for n, message in enumerate(turns[0]["messages"]) if message["role"] == "user")
    for number, body in enumerate(turns):
        text = body["messages"][place]["content"]
        url = "https://pictures.example/" + ("new" if number >= first else "old") + ".png"
        body["messages"][place]["content"] = [
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "text", "text": text},
        ]
    return turns, {first}


def retokenized(turns: Turns, rng: random.Random) -> Planted:
    """Requests of token ids whose answers were generated with other, equally valid ids for the same text."""
    encode = _encoder("qwen3")
    rows: Turns = []
    for number, body in enumerate(turns):
        text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in body["messages"])
        row: dict[str, Any] = {"prompt_token_ids": encode(text + "<|im_start|>assistant\n")}
        if number + 1 < len(turns):
            answer = turns[number + 1]["messages"][len(body["messages"])]["content"]
            word = max(answer.split(), key=len)
            place = answer.index(word) + rng.randrange(1, max(len(word), 2))
            row["output_token_ids"] = [*encode(answer[:place]), *encode(answer[place:]), 151645]
        rows.append(row)
    return rows, {n for n in range(1, len(rows)) if not _same_ids(rows[n - 1], rows[n])}


def _same_ids(before: dict[str, Any], now: dict[str, Any]) -> bool:
    ids = before["prompt_token_ids"] + before["output_token_ids"][:-1]
    return bool(now["prompt_token_ids"][: len(ids)] == ids)


@cache
def _encoder(name: str) -> Callable[[str], list[int]]:
    from tokenizers import Tokenizer

    backend = Tokenizer.from_file(str(tokenizer_folder(name) / "tokenizer.json"))
    return lambda text: list(backend.encode(text, add_special_tokens=False).ids)


@dataclass(frozen=True, slots=True)
class Plan:
    """How one cause is planted: into which log, under which tokenizer and template, read as which server reads."""

    cause: str
    planter: Callable[[Turns, random.Random], Planted]
    log: Path = AGENT
    tokenizer: str = "qwen3"
    template: str | None = None
    render: str = "vllm"
    template_options: str = ""


PLANS = (
    Plan("timestamp", clock), Plan("timestamp", clock, CHAT), Plan("date", date), Plan("date", date, CHAT),
    Plan("volatile_id", volatile_id), Plan("volatile_id", volatile_id, CHAT),
    Plan("system_variant", system_variant), Plan("system_variant", system_variant, CHAT),
    Plan("tools_reordered", tools_reordered), Plan("tool_schema_key_order", tool_schema_key_order),
    Plan("tools_changed", tools_changed), Plan("documents_reordered", documents_reordered),
    Plan("documents_reordered", documents_reordered, CHAT), Plan("history_truncated", history_truncated),
    Plan("history_truncated", history_truncated, CHAT),
    Plan("tool_arguments_reserialized", tool_arguments, template="chatml-safe", render="plain"),
    Plan("tool_arguments_reserialized", tool_argument_order, template="NousResearch-Hermes-3-Llama-3.1-8B-tool_use"),
    Plan("whitespace", whitespace), Plan("whitespace", whitespace, CHAT),
    Plan("null_content", null_content, template="chatml", render="plain"), Plan("content_format", content_format),
    Plan("content_format", content_format, CHAT), Plan("content_changed", content_changed),
    Plan("content_changed", content_changed, CHAT), Plan("reasoning_dropped", reasoning_client, template="chatml-safe"),
    Plan("reasoning_dropped", reasoning_template),
    Plan("template_generation_prefix", every_turn, CHAT, template_options="enable_thinking = false"),
    Plan("template_date", next_day, CHAT, "llama3_1", "meta-llama-Llama-3.2-3B-Instruct"),
    Plan("template_kwargs", template_kwargs, CHAT, "gptoss", "openai-gpt-oss-120b"),
    Plan("special_tokens", special_tokens, CHAT, "llama3_1", "meta-llama-Llama-3.1-8B-Instruct"),
    Plan("multimodal_content", multimodal, CHAT, template="pictures"), Plan("retokenization", retokenized, CHAT),
)  # fmt: skip

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>"
    "{{ c.function.name }} {{ c.function.arguments }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
OWN = {
    "chatml": CHATML,
    "chatml-safe": CHATML.replace("{{ m.content }}", "{{ m.content or '' }}"),
    "pictures": CHATML.replace(
        "{{ m.content }}",
        "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content or [] %}{% if p.type == 'text' %}"
        "{{ p.text }}{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}{% endfor %}{% endif %}",
    ),
}


def planted_log(
    folder: Path, plan: Plan, seed: int, wanted: int, *, name_sessions: bool = True, sessions_most: int = 400
) -> tuple[Path, Path, set[str]]:
    """Writes a log with planted faults and its models file; gives both and the request ids that must be explained.

    Without `name_sessions` the log has no session ids."""
    rng = random.Random(seed)
    chosen = list(sessions(plan.log))
    rng.shuffle(chosen)
    expected: set[str] = set()
    path = folder / "planted.jsonl"
    with path.open("w", encoding="utf-8") as lines:
        for number, turns in enumerate(chosen[:sessions_most]):
            changed, faulty = plan.planter(turns, rng)
            if not faulty:
                changed = turns
            for turn, body in enumerate(changed):
                name = f"{number}-{turn}"
                session = {"session_id": str(number)} if name_sessions else {}
                row = {"request_id": name, **session, **body, "model": "m"}
                lines.write(json.dumps(row) + "\n")
                if turn in faulty:
                    expected.add(name)
            if len(expected) >= wanted:
                break
    return path, _models(folder, plan), expected


def _models(folder: Path, plan: Plan) -> Path:
    lines = ['[models."*"]', f'path = "{tokenizer_folder(plan.tokenizer)}"']
    if plan.template is not None:
        source = OWN.get(plan.template) or templates()[plan.template]
        (folder / "template.jinja").write_text(source, encoding="utf-8")
        lines.append(f'chat_template = "{folder / "template.jinja"}"')
    if plan.template_options:
        lines.append(f"template_options = {{ {plan.template_options.replace('= false', '= false')} }}")
    models = folder / "models.toml"
    models.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return models
