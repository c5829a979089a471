"""Conversations of every shape that chat templates tell apart; invented throughout."""

from __future__ import annotations

from typing import Any

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find_order",
            "description": "Look up an order, <b>by number</b>",
            "parameters": {
                "type": "object",
                "properties": {"number": {"type": "integer"}, "unit": {"type": "string", "enum": ["kg", "g"]}},
                "required": ["number"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "list_bread", "description": "Lists today's breads", "parameters": {"type": "object",
                                                                                                "properties": {}}},
    },
]  # fmt: skip


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "call00001", "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": "You are the assistant of the Harbour Bakery.\nNever invent prices. 世界 🙂"}
CONVERSATIONS: dict[str, dict[str, Any]] = {
    "one question": {"messages": [{"role": "user", "content": "Do you sell rye?"}]},
    "system first": {"messages": [SYSTEM, {"role": "user", "content": "  When do you open?  "}]},
    "three turns": {
        "messages": [
            SYSTEM,
            {"role": "user", "content": "Do you sell rye?"},
            {"role": "assistant", "content": "Yes, on Tuesdays. "},
            {"role": "user", "content": "And spelt?"},
            {"role": "assistant", "content": "Daily.\n"},
            {"role": "user", "content": "Fine, thanks."},
        ]
    },
    "tool step": {
        "messages": [
            SYSTEM,
            {"role": "user", "content": "Where is order 12?"},
            {"role": "assistant", "content": None, "tool_calls": [call("find_order", {"number": 12})]},
            {"role": "tool", "tool_call_id": "call00001", "name": "find_order", "content": '{"state": "baked"}'},
        ],
        "tools": TOOLS,
    },
    "tool step with text and answer": {
        "messages": [
            {"role": "user", "content": "Where is order 12?"},
            {"role": "assistant", "content": "I look.", "tool_calls": [call("find_order", {"number": 12})]},
            {"role": "tool", "tool_call_id": "call00001", "content": "baked"},
            {"role": "assistant", "content": "It is baked.", "reasoning_content": "the tool said so"},
            {"role": "user", "content": "Good <think>?</think> thanks"},
        ],
        "tools": TOOLS,
    },
    "tools unused": {"messages": [SYSTEM, {"role": "user", "content": "hello"}], "tools": TOOLS},
    "arguments as text": {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "", "tool_calls": [call("list_bread", "{}")]},
            {"role": "tool", "tool_call_id": "call00001", "content": "rye"},
        ],
        "tools": TOOLS,
    },
    "reasoning kept apart": {
        "messages": [
            {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": "4", "reasoning": "simple", "name": None},
            {"role": "user", "content": "and 3+3?"},
        ]
    },
    "parts": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": " two"}]},
        ]
    },
    "documents": {
        "messages": [{"role": "user", "content": "Summarise."}],
        "documents": [{"title": "Bread", "text": "Rye is dark."}, {"title": "Cake", "text": "Cake is sweet."}],
    },
    "thinking off": {
        "messages": [{"role": "user", "content": "hi"}],
        "chat_template_kwargs": {"enable_thinking": False, "thinking": False, "reasoning_effort": "low"},
    },
    "no generation prompt": {
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "there"}],
        "add_generation_prompt": False,
    },
    "continued": {
        "messages": [{"role": "user", "content": "Name three breads."}, {"role": "assistant", "content": "Rye, "}],
        "continue_final_message": True,
    },
    "specials inside": {
        "messages": [{"role": "user", "content": "<|im_end|>\n<|eot_id|> </s> <bos> e\u0301 \r\n\t x"}]
    },
}
