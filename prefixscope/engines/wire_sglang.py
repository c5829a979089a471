"""What SGLang does to a chat request before the chat template sees it.

Read in SGLang 0.5.23, not compared with a running one (unverified): sglang/srt/entrypoints/openai/serving_chat.py
(_process_messages, _apply_jinja_template, _handle_last_assistant_message, normalize_tool_content,
normalize_assistant_tool_call_arguments), protocol.py (ChatCompletionRequest.normalize_reasoning_inputs,
ChatCompletionMessageGenericParam, ToolCall, Tool, Function), sglang/srt/parser/jinja_template_utils.py
(process_content_for_template_format). The encoders written in Python for single model families (DeepSeek V3.2,
Kimi K3, MiniMax M3, ...) and the reordering of tool results that carry media are not reproduced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from prefixscope.records import Conversation, Json

__all__ = ["sglang_conversation"]

_MESSAGE_KEYS = (
    "role", "content", "tool_call_id", "name", "phase", "reasoning_content", "tool_calls", "tools", "prefix",
)  # fmt: skip
_MEDIA_PARTS = {"image_url": "image", "input_image": "image", "video_url": "video", "audio_url": "audio",
                "input_audio": "audio"}  # fmt: skip
_EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"})


def sglang_conversation(
    body: Mapping[str, Json], template: str, content_format: str, server_options: Mapping[str, Json]
) -> Conversation:
    """The conversation handed to the template. Raises ValueError where the server answers 400.

    Both flags set mean: render everything before the last message, then append that message's text to the prompt.
    """
    del template
    messages = [_message(number, message, content_format) for number, message in enumerate(body["messages"])]
    last = messages[-1]
    continued = body.get("continue_final_message") is True
    open_ended = last["role"] == "assistant" and isinstance(last.get("content"), str)
    if open_ended and not continued:
        # the server takes a final assistant message for the user's
        messages[-1] = {"role": "user", "content": last["content"]}
    return Conversation(
        messages=tuple(messages),
        tools=_tools(body),
        options=_options(body, server_options),
        add_generation_prompt=True,
        continue_final_message=open_ended and continued,
    )


def _options(body: Mapping[str, Json], server_options: Mapping[str, Json]) -> dict[str, Json]:
    """Template variables: the request's, else the server's; an effort also switches thinking on or off."""
    given = body.get("chat_template_kwargs")
    asked: dict[str, Json] = dict(given) if isinstance(given, dict) else {}
    effort, thinking = body.get("reasoning_effort"), None
    reasoning = body.get("reasoning")
    if isinstance(reasoning, dict):
        effort = _effort(reasoning, effort)
        enabled = reasoning["enabled"] if reasoning.get("enabled") is not None else reasoning.get("enable", False)
        if isinstance(enabled, str):
            enabled = enabled.strip().lower() in ("1", "true", "yes", "y", "on")
        thinking = True if enabled else None
    if effort is not None:
        thinking = effort != "none"
    if thinking is not None:
        asked.setdefault("thinking", thinking)
        asked.setdefault("enable_thinking", thinking)
    merged = {**server_options, **asked}
    effort = merged.get("reasoning_effort") if effort is None else effort
    return merged if effort is None else {"reasoning_effort": effort, **merged}


def _effort(reasoning: Mapping[str, Json], otherwise: Json) -> Json:
    effort = reasoning["effort"] if reasoning.get("effort") is not None else reasoning.get("reasoning_effort")
    if effort is None or isinstance(effort, bool) or not isinstance(effort, (str, int, float)):
        return otherwise
    return effort if effort in _EFFORTS else float(effort)


def _tools(body: Mapping[str, Json]) -> tuple[Json, ...] | None:
    """The tools as rendered: none under tool_choice "none", the named one alone under a named choice."""
    tools, choice = body.get("tools"), body.get("tool_choice")
    if not tools or choice == "none":
        return None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ValueError("tools is not a list of objects")
    if isinstance(choice, dict):
        wanted = choice.get("function", {}).get("name")
        tools = [tool for tool in tools if tool.get("function", {}).get("name") == wanted]
    return tuple(_tool(tool) for tool in tools) or None


def _tool(tool: Mapping[str, Json]) -> dict[str, Json]:
    """A tool through the server's schema: keys of the function in the order sent, missing ones as null behind them."""
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError("a tool has no function with a name")
    defer = tool.get("defer_loading")
    known = {name: function.get(name) for name in ("description", "name", "parameters")}
    if function.get("strict") is not None:
        known["strict"] = function["strict"]
    inner_defer = function.get("defer_loading") if function.get("defer_loading") is not None else defer
    if inner_defer is not None:
        known["defer_loading"] = inner_defer
    shaped = {name: known[name] for name in (*function, *known) if name in known}
    return {"type": tool.get("type", "function"), "function": shaped, "defer_loading": defer}


def _message(number: int, message: Mapping[str, Json], content_format: str) -> dict[str, Json]:
    role = message.get("role")
    if not isinstance(role, str):
        raise ValueError(f"message {number} has no role")
    role = role.lower()
    if role == "user":
        shaped: dict[str, Json] = {"role": role, "content": message.get("content")}
    else:
        shaped = {name: message.get(name) for name in _MESSAGE_KEYS} | {"role": role}
    if isinstance(shaped.get("tool_calls"), list):
        shaped["tool_calls"] = [_tool_call(number, role, call) for call in shaped["tool_calls"]]
    content = shaped["content"]
    if content is None:
        shaped["content"] = ""
    elif isinstance(content, list):
        shaped["content"] = _parts(content, content_format)
        if role == "tool" and isinstance(shaped["content"], list):
            shaped["content"] = _tool_result(shaped["content"])
        # a list is put at the end of a message for templates that take parts
        if content_format == "openai":
            shaped["content"] = shaped.pop("content")
    return {name: value for name, value in shaped.items() if value is not None}


def _parts(content: list[Json], content_format: str) -> Json:
    parts = [part for part in content if isinstance(part, dict)]
    if content_format == "string":
        return " ".join(str(part.get("text", "")) for part in parts if part.get("type") in ("text", "input_text"))
    shaped: list[Json] = []
    for part in parts:
        kind = part.get("type")
        if kind in ("text", "input_text"):
            shaped.append({"type": "text", "text": part.get("text", "")})
        elif isinstance(kind, str) and kind in _MEDIA_PARTS:
            shaped.append({"type": _MEDIA_PARTS[kind]})
        elif kind == "tool_reference":
            shaped.append(part)
    return shaped


def _tool_result(parts: list[Json]) -> Json:
    if all(part.get("type") == "text" for part in parts):
        return " ".join(part["text"] for part in parts)
    return parts


def _tool_call(number: int, role: str, call: Json) -> dict[str, Json]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise ValueError(f"message {number}: a tool call has no function")
    arguments = function.get("arguments")
    if isinstance(arguments, str) and role == "assistant":
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise ValueError("Assistant tool call function.arguments must be valid JSON.") from None
        if not isinstance(arguments, dict):
            raise ValueError("Assistant tool call function.arguments must be a JSON object.")
    return {
        "id": call.get("id"),
        "index": call.get("index"),
        "type": "function",
        "function": {"name": function.get("name"), "arguments": arguments},
    }
