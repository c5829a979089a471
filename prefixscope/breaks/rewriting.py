"""What removes a cause from one request: a body in, a body out, the same for every request of a log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from prefixscope.breaks.forms import canonical, content_text, json_canonical, media_of, thoughts_of, without_thoughts
from prefixscope.records import Json, LoggedRequest

__all__ = ["RULES", "answer_key", "at_the_end", "messages_together", "numbered_calls", "repeating", "with_thoughts"]


def _body(change: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Callable[[LoggedRequest], LoggedRequest]:
    return lambda request: replace(request, body=change(request.body))


def _messages(change: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Callable[[LoggedRequest], LoggedRequest]:
    def changed(body: Mapping[str, Json]) -> Mapping[str, Json]:
        messages = body.get("messages")
        if not isinstance(messages, list):
            return body
        return {**body, "messages": [change(one) if isinstance(one, dict) else one for one in messages]}

    return _body(changed)


def messages_together(change: Callable[[list[Any]], list[Any]]) -> Callable[[LoggedRequest], LoggedRequest]:
    def changed(body: Mapping[str, Json]) -> Mapping[str, Json]:
        messages = body.get("messages")
        return {**body, "messages": change(messages)} if isinstance(messages, list) else body

    return _body(changed)


def numbered_calls(messages: list[Any]) -> list[Any]:
    """Ids of tool calls by their order in the conversation: nine letters and digits, as the strictest template asks.

    >>> numbered_calls([{"tool_calls": [{"id": "toolu_x"}]}, {"tool_call_id": "toolu_x"}])
    [{'tool_calls': [{'id': 'call00001'}]}, {'tool_call_id': 'call00001'}]
    """
    names: dict[str, str] = {}

    def named(value: Any) -> Any:
        return names.setdefault(value, f"call{len(names) + 1:05d}") if isinstance(value, str) else value

    found = []
    for message in messages:
        if isinstance(message, dict):
            message = dict(message)
            if isinstance(message.get("tool_calls"), list):
                message["tool_calls"] = [
                    {**call, "id": named(call["id"])} if isinstance(call, dict) and "id" in call else call
                    for call in message["tool_calls"]
                ]
            if "tool_call_id" in message:
                message["tool_call_id"] = named(message["tool_call_id"])
        found.append(message)
    return found


def _sorted_tools(body: Mapping[str, Json]) -> Mapping[str, Json]:
    tools = body.get("tools")
    return {**body, "tools": sorted(tools, key=canonical)} if isinstance(tools, list) else body


def _sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted_keys(value[name]) for name in sorted(value)}
    return [_sorted_keys(item) for item in value] if isinstance(value, list) else value


def _sorted_schemas(body: Mapping[str, Json]) -> Mapping[str, Json]:
    return {**body, "tools": _sorted_keys(body["tools"])} if isinstance(body.get("tools"), list) else body


def _sorted_documents(body: Mapping[str, Json]) -> Mapping[str, Json]:
    changed = dict(body)
    if isinstance(body.get("documents"), list):
        changed["documents"] = sorted(body["documents"], key=canonical)
    inner = body.get("chat_template_kwargs")
    if isinstance(inner, dict) and isinstance(inner.get("documents"), list):
        changed["chat_template_kwargs"] = {**inner, "documents": sorted(inner["documents"], key=canonical)}
    messages = body.get("messages")
    if isinstance(messages, list):
        passages = [_sorted_passages(one) if isinstance(one, dict) else one for one in messages]
        changed["messages"] = _results_in_order(passages)
    return changed


def _results_in_order(messages: list[Any]) -> list[Any]:
    """Results that follow one another stand in the order of their calls."""
    order: dict[Any, int] = {}
    for message in messages:
        for call in message.get("tool_calls") or () if isinstance(message, dict) else ():
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                order.setdefault(call["id"], len(order))

    def is_result(message: Any) -> bool:
        return isinstance(message, dict) and message.get("role") == "tool" and message.get("tool_call_id") in order

    found: list[Any] = []
    for results, run in groupby(messages, is_result):
        stretch = list(run)
        found += sorted(stretch, key=lambda one: order[one["tool_call_id"]]) if results else stretch
    return found


_PASSAGE = re.compile(
    r"(^[ \t]*(?:#+[ \t]+)?(?:\[(?:doc(?:ument)?|passage|source|chunk|context)?\s*#?\d+\]|"
    r"(?:Document|Doc|Passage|Source|Chunk|Context)\s*#?\d+\s*(?:[:.)]|$)|<(?:doc(?:ument)?|passage|source|chunk)\b[^>\n]*>))",
    re.IGNORECASE | re.MULTILINE,
)


def _sorted_passages(message: Mapping[str, Json]) -> Mapping[str, Json]:
    """Passages behind labels such as `[doc 1]` are sorted by their text; labels keep their places. Of parts the last
    stays where it is: it asks about the others."""
    content = message.get("content")
    if isinstance(content, list) and len(content) > 2 and message.get("role") not in ("system", "developer"):
        return {**message, "content": [*sorted(content[:-1], key=canonical), content[-1]]}
    if not isinstance(content, str):
        return message
    head, *pieces = _PASSAGE.split(content)
    labels, texts = pieces[::2], pieces[1::2]
    if len(labels) < 2:
        return message
    # what follows the last passage is no passage: behind its line where all are lines, else behind an empty line
    lines = not any("\n" in text.strip() for text in texts[:-1]) and bool(texts[-1].partition("\n")[0].strip())
    last, gap, rest = texts[-1].partition("\n" if lines else "\n\n")
    bodies = sorted(text.strip() for text in (*texts[:-1], last))
    joined = "\n".join(f"{label} {body}" for label, body in zip(sorted(labels), bodies, strict=True))
    return {**message, "content": f"{head}{joined}{gap}{rest}"}


def _one_writing(message: Mapping[str, Json]) -> Mapping[str, Json]:
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [_one_call(call) for call in calls]}


def _one_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    written: Any = json_canonical(arguments)
    if written is None:
        return call
    if not isinstance(arguments, str):
        written = json.loads(written)
    return {**call, "function": {**function, "arguments": written}}


def _no_null(message: Mapping[str, Json]) -> Mapping[str, Json]:
    return {**message, "content": ""} if message.get("content") in (None, []) else message


def _one_text(message: Mapping[str, Json]) -> Mapping[str, Json]:
    if not isinstance(message.get("content"), list) or media_of(message):
        return message
    return {**message, "content": content_text(message)}


def _one_blank(text: str) -> str:
    return " ".join(text.split())


def _plain_spaces(message: Mapping[str, Json]) -> Mapping[str, Json]:
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": _one_blank(content)}
    if not isinstance(content, list):
        return message
    parts = [
        {**part, "text": _one_blank(part["text"])}
        if isinstance(part, dict) and isinstance(part.get("text"), str)
        else part
        for part in content
    ]
    return {**message, "content": parts}


def _plain_answer(request: LoggedRequest) -> LoggedRequest:
    answer = request.response
    if isinstance(answer, str):
        answer = _one_blank(answer)
    elif isinstance(answer, dict):
        answer = _plain_spaces(answer)
    return replace(_messages(_plain_spaces)(request), response=answer)


def _default_options(body: Mapping[str, Json]) -> Mapping[str, Json]:
    kept = {name: value for name, value in body.items() if name != "reasoning_effort"}
    inner = kept.pop("chat_template_kwargs", None)
    documents = inner.get("documents") if isinstance(inner, dict) else None
    return kept if documents is None else {**kept, "chat_template_kwargs": {"documents": documents}}


def at_the_end(request: LoggedRequest, words: str) -> LoggedRequest:
    """The words behind all the rest: at the end of the newest message or of the prompt."""
    body = dict(request.body)
    if isinstance(body.get("prompt"), str):
        body["prompt"] = f"{body['prompt']}\n{words}"
    messages = body.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict):
        last = messages[-1]
        content = last.get("content")
        if isinstance(content, list):
            content = [*content, {"type": "text", "text": words}]
        else:
            content = f"{content or ''}\n{words}"
        body["messages"] = [*messages[:-1], {**last, "content": content}]
    return replace(request, body=body)


def with_thoughts(thoughts: Mapping[str, Mapping[str, Json]]) -> Callable[[LoggedRequest], LoggedRequest]:
    """Answers of the history with the reasoning that the log has of them, by `answer_key`."""

    def restored(message: Mapping[str, Json]) -> Mapping[str, Json]:
        if message.get("role") != "assistant" or thoughts_of(message):
            return message
        return {**message, **thoughts.get(answer_key(message), {})}

    return _messages(restored)


def answer_key(message: Mapping[str, Json]) -> str:
    """What an answer is known by without its reasoning: its text and its calls."""
    return canonical(["".join(content_text(without_thoughts(message)).split()), message.get("tool_calls") or None])


_DOUBLED = re.compile(r"\A(<[^<>\s]{1,40}>|\[[A-Z]{2,8}\])(?:\s*\1)+")


def _single_begin(request: LoggedRequest) -> LoggedRequest:
    body = dict(request.body)
    if isinstance(body.get("prompt"), str):
        body["prompt"] = _DOUBLED.sub(r"\1", body["prompt"])
    ids = body.get("prompt_token_ids")
    if isinstance(ids, list):
        while len(ids) > 1 and ids[0] == ids[1]:
            ids = ids[1:]
        body["prompt_token_ids"] = ids
    if request.kind == "chat" and body.get("add_special_tokens"):
        body["add_special_tokens"] = False
    return replace(request, body=body)


def repeating(words: str) -> Callable[[LoggedRequest], LoggedRequest]:
    """Every answer in the history begins with the words that the generation prompt put in front of it."""

    def repeated(message: Mapping[str, Json]) -> Mapping[str, Json]:
        content = message.get("content")
        if message.get("role") != "assistant" or not isinstance(content, str | None):
            return message
        return {**message, "content": words + (content or "").removeprefix(words)}

    return _messages(repeated)


def _as_text(request: LoggedRequest) -> LoggedRequest:
    return request if request.response is None else replace(request, output_token_ids=None)


def _without_fields(*names: str) -> Callable[[LoggedRequest], LoggedRequest]:
    return _body(lambda body: {name: value for name, value in body.items() if name not in names})


RULES: Mapping[str, Callable[[LoggedRequest], LoggedRequest]] = {
    "template_date": lambda request: replace(request, time_ns=None),
    "template_kwargs": _body(_default_options),
    "tools_reordered": _body(_sorted_tools),
    "tool_schema_key_order": _body(_sorted_schemas),
    "documents_reordered": _body(_sorted_documents),
    "tool_arguments_reserialized": _messages(_one_writing),
    "null_content": _messages(_no_null),
    "content_format": _messages(_one_text),
    "whitespace": _plain_answer,
    "reasoning_dropped": _messages(without_thoughts),
    "special_tokens": _single_begin,
    "prompt_logprobs": _without_fields("prompt_logprobs", "echo"),
    "adapter": lambda request: replace(_without_fields("lora_path")(request), adapter=None),
    "cache_salt": _without_fields("cache_salt", "extra_key"),
    "retokenization": _as_text,
}
"""What removes a cause from one request, where that is a rule of its own."""
