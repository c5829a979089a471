"""What vLLM does to a chat request before the chat template sees it.

Read in vLLM 0.32.0 and compared with it running: vllm/entrypoints/openai/chat_completion/protocol.py
(ChatCompletionRequest, ChatCompletionToolsParam), vllm/entrypoints/generate/base/protocol.py (FunctionDefinition),
vllm/renderers/chat_utils.py (_parse_chat_message_content, _postprocess_messages), vllm/renderers/hf.py
(_convert_developer_to_system, _consolidate_system_messages), vllm/renderers/params.py (merge_kwargs).

A body that the server's schema refuses for its form alone (a tool call without id, arguments already parsed, a text
part called input_text) is read the way the code behind the schema would: a log is often written by someone else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from prefixscope.records import Conversation, Json

__all__ = ["vllm_conversation"]

_BILLING_HEADER = "x-anthropic-billing-header"
_TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
_MEDIA_PARTS = {
    "image_url": "image", "input_image": "image", "image_embeds": "image", "image_pil": "image",
    "audio_url": "audio", "input_audio": "audio", "audio_embeds": "audio",
    "video_url": "video", "video_embeds": "video",
}  # fmt: skip
_PART_FIELDS = frozenset({
    "type", "text", "refusal", "thinking", "closed", "name", "uuid", "file", "prompt_embeds", "data", "detail",
    *_MEDIA_PARTS,
})  # fmt: skip
"""Fields the schema of a content part knows; others travel to templates that take parts."""


def vllm_conversation(
    body: Mapping[str, Json], template: str, content_format: str, server_options: Mapping[str, Json]
) -> Conversation:
    """The conversation handed to the template. Raises ValueError where the server answers 400."""
    messages = [_message(number, message, content_format) for number, message in enumerate(body["messages"])]
    if any(message["role"] == "developer" for message in messages) and not _speaks_of_developer(template):
        messages = _one_system_message([_as_system(message) for message in messages])
    tools = body.get("tools") or None
    if tools is not None and not isinstance(tools, list):
        raise ValueError("tools is not a list")
    options = _options(body, server_options)
    documents = options.pop("documents", None)
    return Conversation(
        messages=tuple(messages),
        tools=None if tools is None else tuple(_tool(tool) for tool in tools),
        documents=None if documents is None else tuple(documents),
        options=options,
        add_generation_prompt=body.get("add_generation_prompt") is not False,
        continue_final_message=body.get("continue_final_message") is True,
    )


def _options(body: Mapping[str, Json], server_options: Mapping[str, Json]) -> dict[str, Json]:
    """Server defaults, then the request's; a value that is null or "auto" sets nothing."""
    given = body.get("chat_template_kwargs") or {}
    if not isinstance(given, dict):
        raise ValueError("chat_template_kwargs is not an object")
    for name in ("chat_template", "tokenize"):
        if name in given:
            raise ValueError(f"unexpected {name} in chat_template_kwargs")
    asked = dict(given)
    effort = body.get("reasoning_effort")
    own = {"documents": body.get("documents"), "reasoning_effort": effort}
    if effort is not None and "enable_thinking" not in given:
        own["enable_thinking"] = effort != "none"
    asked |= {name: value for name, value in own.items() if not _unset(value)}
    return {**server_options, **{name: value for name, value in asked.items() if not _unset(value)}}


def _unset(value: Json) -> bool:
    return value is None or value == "auto"


def _tool(tool: Json) -> dict[str, Json]:
    """A tool through the server's schema: its own key order, missing description and parameters as null."""
    if not isinstance(tool, dict) or not isinstance(tool.get("function"), dict):
        raise ValueError("a tool is not an object with a function")
    function = tool["function"]
    shaped = {name: function.get(name) for name in ("name", "description", "parameters")}
    if function.get("strict") is not None:
        shaped["strict"] = function["strict"]
    defer = tool.get("defer_loading")
    inner_defer = function.get("defer_loading") if function.get("defer_loading") is not None else defer
    if inner_defer is not None:
        shaped["defer_loading"] = inner_defer
    outer = {"type": tool.get("type", "function"), "function": shaped}
    return outer if defer is None else {**outer, "defer_loading": defer}


def _message(number: int, message: Mapping[str, Json], content_format: str) -> dict[str, Json]:
    role = message.get("role")
    if not isinstance(role, str):
        raise ValueError(f"message {number} has no role")
    shaped: dict[str, Json] = {"role": role, "content": _content(number, role, message, content_format)}
    if role == "assistant":
        calls = message.get("tool_calls")
        if isinstance(calls, list) and calls:
            shaped["tool_calls"] = [_tool_call(number, call) for call in calls]
        reasoning = message.get("reasoning")
        # the deprecated name is renamed on the way in (_normalize_messages_before); /tokenize alone drops it
        reasoning = message.get("reasoning_content") if reasoning is None else reasoning
        if reasoning is not None:
            shaped["reasoning"] = shaped["reasoning_content"] = reasoning
    elif role == "tool" and "tool_call_id" in message:
        shaped["tool_call_id"] = message["tool_call_id"]
    for name in ("name", "task"):
        if isinstance(message.get(name), str):
            shaped[name] = message[name]
    if role == "developer":
        shaped["tools"] = message.get("tools")
    return shaped


def _content(number: int, role: str, message: Mapping[str, Json], content_format: str) -> Json:
    content = message.get("content")
    if content is None:
        content = []
    elif isinstance(content, str):
        content = [{"type": "text", "text": content}]
    elif not isinstance(content, list):
        raise ValueError(f"the content of message {number} is neither a text nor a list of parts")
    if role == "system":
        content = list(_without_billing_header(content))
    parts = [shaped for part in content for shaped in _part(number, part)]
    if content_format == "string":
        # empty parts leave no line behind; a multimodal model's placeholders would stand here too, but which ones only
        # the model's class knows
        return "\n".join(part["text"] for part in parts if part.get("text"))
    if role == "tool" and all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(number: int, part: Json) -> Iterator[dict[str, Json]]:
    if isinstance(part, str):
        yield {"type": "text", "text": part}
        return
    if not isinstance(part, dict):
        raise ValueError(f"a content part of message {number} is not an object")
    kind = part.get("type")
    if kind is None:
        kind = next((name for name in (*_MEDIA_PARTS, "text") if name in part), None)
    extra = {name: value for name, value in part.items() if name not in _PART_FIELDS}
    if not isinstance(kind, str):
        raise ValueError(f"unsupported content part type {kind!r:.60} in message {number}")
    if kind in _TEXT_PARTS:
        text = part.get(_TEXT_PARTS[kind])
        if isinstance(text, str):
            yield {"type": "text", "text": text, **extra}
    elif kind in _MEDIA_PARTS:
        yield {"type": _MEDIA_PARTS[kind], **extra}
    elif kind == "tool_reference":
        yield {"type": "tool_reference", "name": part.get("name")}
    else:
        raise ValueError(f"unsupported content part type {kind!r} in message {number}")


def _without_billing_header(content: list[Json]) -> Iterator[Json]:
    """vLLM cuts the line off that changes with every request of one coding agent, so that prefixes stay equal."""
    for part in content:
        text = part if isinstance(part, str) else None
        if isinstance(part, dict) and part.get("type") == "text":
            text = part.get("text")
        if not isinstance(text, str) or not text.startswith(_BILLING_HEADER):
            yield part
        elif rest := text.partition("\n")[2]:
            yield rest if isinstance(part, str) else {**part, "text": rest}


def _tool_call(number: int, call: Json) -> dict[str, Any]:
    """A tool call in the key order of the schema (id, function{arguments, name}, type), arguments parsed."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type", "function") != "function":
        raise ValueError(f"message {number}: only tool calls of type function are supported")
    inner = {"arguments": _arguments(function.get("arguments")), **_in_order(function, ("name",))}
    inner |= {name: value for name, value in function.items() if name not in inner}
    shaped = {**_in_order(call, ("id",)), "function": inner, **_in_order(call, ("type",))}
    return shaped | {name: value for name, value in call.items() if name not in shaped}


def _in_order(source: Mapping[str, Json], names: tuple[str, ...]) -> dict[str, Json]:
    return {name: source[name] for name in names if name in source}


def _arguments(value: Json) -> dict[str, Json]:
    """Arguments as an object; what is no JSON object becomes an empty one, as the server does since 0.32."""
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _speaks_of_developer(template: str) -> bool:
    return '"developer"' in template or "'developer'" in template


def _as_system(message: dict[str, Json]) -> dict[str, Json]:
    if message["role"] != "developer":
        return message
    return {name: "system" if name == "role" else value for name, value in message.items() if name != "tools"}


def _one_system_message(messages: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """System messages merged into one at the front, unless there is only one and it is there already."""
    systems = [message for message in messages if message["role"] == "system"]
    if len(systems) <= 1 and messages[0]["role"] == "system":
        return messages
    texts = [_joined(message["content"]) for message in systems]
    merged = {"role": "system", "content": "\n\n".join(text for text in texts if text)}
    return [merged, *(message for message in messages if message["role"] != "system")]


def _joined(content: Json) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part if isinstance(part, str) else part["text"] for part in content if "text" in part)
