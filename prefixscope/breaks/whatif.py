"""A log with a fault removed: every request is written anew before its prompt is made, and all is computed again.

A rewrite looks at one request alone and does the same to all of them, as the client's or gateway's fix would: a clock
is taken out, tools are sorted, null becomes empty. Nothing is estimated. Causes for which no such rule exists (another
system prompt, dropped turns, other tools) have no what-if, and that is said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prefixscope.breaks.forms import canonical, content_text, json_canonical, media_of, without_thoughts
from prefixscope.breaks.header import Spot, without_spots
from prefixscope.records import Json, LoggedRequest

__all__ = ["CHANGES", "Rewrite", "Spot", "rewrite_for"]

CHANGES: Mapping[str, str] = {
    "timestamp": "the clock is taken out",
    "date": "the date is taken out",
    "volatile_id": "the id is taken out",
    "template_date": "the template prints one fixed date",
    "template_kwargs": "all requests use the template's default options",
    "tools_reordered": "tools are sorted by name",
    "tool_schema_key_order": "keys of tool schemas are sorted",
    "documents_reordered": "documents are sorted",
    "tool_arguments_reserialized": "arguments of tool calls are written in one way",
    "null_content": "null and missing contents are empty texts",
    "content_format": "lists of text parts become one text",
    "whitespace": "runs of blanks become one, texts are trimmed, lines end in \\n",
    "reasoning_dropped": "reasoning is never sent back",
    "special_tokens": "the beginning-of-text token is not doubled",
    "prompt_logprobs": "no log-probabilities of the prompt are asked for",
    "adapter": "adapters share KV with their base and each other",
    "cache_salt": "salts and other isolating keys are not set",
}
"""Causes with a what-if, and what is changed."""

TOGETHER = frozenset({"adapter", "cache_salt"})
"""Causes that are undone in the identity of a request, not in its body."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Removes causes from a request. `spots` are the places of clocks, dates and ids; picklable for workers.

    >>> from prefixscope.records import Source
    >>> request = LoggedRequest(Source("log", 1), "chat", {"messages": [{"role": "user", "content": None}]})
    >>> Rewrite(("null_content",))(request).body["messages"]
    [{'role': 'user', 'content': ''}]
    """

    causes: tuple[str, ...]
    spots: tuple[Spot, ...] = ()

    def __call__(self, request: LoggedRequest) -> LoggedRequest:
        """The request as it would be without the causes; what can't be read is left as it is."""
        if self.spots:
            request = replace(request, body=without_spots(request, self.spots))
        for cause in self.causes:
            change = _CHANGES.get(cause)
            if change is not None:
                request = change(request)
        return request


def rewrite_for(causes: Sequence[str], spots: Sequence[Spot]) -> Rewrite:
    """The rewrite for some causes; of the places only those of these causes count."""
    return Rewrite(tuple(causes), tuple(spot for spot in spots if spot.cause in causes))


def _body(change: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Callable[[LoggedRequest], LoggedRequest]:
    return lambda request: replace(request, body=change(request.body))


def _messages(change: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Callable[[LoggedRequest], LoggedRequest]:
    def changed(body: Mapping[str, Json]) -> Mapping[str, Json]:
        messages = body.get("messages")
        if not isinstance(messages, list):
            return body
        return {**body, "messages": [change(one) if isinstance(one, dict) else one for one in messages]}

    return _body(changed)


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
        changed["messages"] = [_sorted_passages(one) if isinstance(one, dict) else one for one in messages]
    return changed


_PASSAGE = re.compile(
    r"(^[ \t]*(?:\[(?:doc(?:ument)?|passage|source|chunk|context)?\s*#?\d+\]|"
    r"(?:Document|Doc|Passage|Source|Chunk|Context)\s*#?\d+\s*[:.)]|<(?:doc(?:ument)?|passage|source|chunk)\b[^>\n]*>))",
    re.IGNORECASE | re.MULTILINE,
)


def _sorted_passages(message: Mapping[str, Json]) -> Mapping[str, Json]:
    """Passages behind labels such as `[doc 1]` are sorted by their text; labels keep their places."""
    content = message.get("content")
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
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(" ".join(line.split()) for line in lines).strip()


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


def _single_begin(request: LoggedRequest) -> LoggedRequest:
    body = dict(request.body)
    ids = body.get("prompt_token_ids")
    if isinstance(ids, list):
        while len(ids) > 1 and ids[0] == ids[1]:
            ids = ids[1:]
        body["prompt_token_ids"] = ids
    if request.kind == "chat" and body.get("add_special_tokens"):
        body["add_special_tokens"] = False
    return replace(request, body=body)


def _without_fields(*names: str) -> Callable[[LoggedRequest], LoggedRequest]:
    return _body(lambda body: {name: value for name, value in body.items() if name not in names})


_CHANGES: Mapping[str, Callable[[LoggedRequest], LoggedRequest]] = {
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
}
