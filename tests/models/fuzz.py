"""Random chats that are hard on tokenizers and templates; seeded."""

from __future__ import annotations

import json
import random
from typing import Any

PIECES = (
    "the quick brown fox ", "Hello, world!", "don't", " I'LL we've", "naïve café", "Grüße", "привет мир", "世界你好",
    "こんにちは", "한국어", "🙂🍞", "👩\u200d👩\u200d👧", "e\u0301", "\u0301", "\u200d", "\ufeff", "\u00a0", "\u3000",
    "1234567",
    "3.14e-10", "0x1F", "   ", "\n", "\n\n\n", "\r\n", "\t", " \n ", "\x1c", "\x85", "\u2028",
    "def f(x):\n\treturn x\n", "{\"a\": [1, 2]}", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|endoftext|>", "</s>",
    "<s>", "[INST]", "[/INST]", "<bos>", "<start_of_turn>", "<｜User｜>", "<｜end▁of▁sentence｜>", "<think>",
    "</think>",
    "<tool_call>", "<|channel|>", "▁▁", "_", "<", "|>", "[", "]", "<|", "https://x.y/z?q=1&r=%20", "AAAAAAAA",
    "=" * 40, "\\n", "\"quoted\"", "a" * 50, "",
)  # fmt: skip


def text(draw: random.Random, most: int = 12) -> str:
    """A string of pieces, sometimes empty or blank."""
    return draw.choice(("", " ", "")).join(draw.choice(PIECES) for _ in range(draw.randint(0, most)))


def chat(draw: random.Random) -> dict[str, Any]:
    """A request body: turns in an order that strict templates take, sometimes a system prompt, sometimes tools."""
    messages: list[dict[str, Any]] = []
    if draw.random() < 0.6:
        messages.append({"role": "system", "content": text(draw, 20)})
    body: dict[str, Any] = {"messages": messages}
    if draw.random() < 0.3:
        body["tools"] = [tool(draw) for _ in range(draw.randint(1, 3))]
    for _ in range(draw.randint(0, 3)):
        messages.append({"role": "user", "content": text(draw)})
        if "tools" in body and draw.random() < 0.5:
            arguments = json.dumps({text(draw, 1): draw.choice([1, 1.5, True, None, text(draw, 2)])})
            call = {"name": body["tools"][0]["function"]["name"], "arguments": arguments}
            calls = [{"id": "call00001", "type": "function", "function": call}]
            messages.append({"role": "assistant", "content": draw.choice([None, text(draw, 3)]), "tool_calls": calls})
            messages.append({"role": "tool", "tool_call_id": "call00001", "content": text(draw)})
        reply: dict[str, Any] = {"role": "assistant", "content": text(draw)}
        if draw.random() < 0.2:
            reply["reasoning_content"] = text(draw, 4)
        messages.append(reply)
    messages.append({"role": "user", "content": text(draw)})
    if draw.random() < 0.2:
        body["chat_template_kwargs"] = {"enable_thinking": draw.random() < 0.5}
    return body


def tool(draw: random.Random) -> dict[str, Any]:
    """A function with odd words in its description."""
    return {
        "type": "function",
        "function": {
            "name": f"find_{draw.randrange(100)}",
            "description": text(draw, 4),
            "parameters": {"type": "object", "properties": {"x": {"type": "string", "description": text(draw, 2)}}},
        },
    }
