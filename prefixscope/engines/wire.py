"""From a request body to the Conversation that a chat template is given, as each kind of server does it.

`plain` and `transformers` hand the body over as logged (they differ in rendering); `vllm` and `sglang` follow the
servers' own conversion, see wire_vllm.py and wire_sglang.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from prefixscope.engines.wire_sglang import sglang_conversation
from prefixscope.engines.wire_vllm import vllm_conversation
from prefixscope.errors import OptionError
from prefixscope.records import Conversation, Json

__all__ = ["RENDERINGS", "WIRES", "Rendering", "Wire", "caveats", "default_rendering", "logged_conversation", "wire"]

Rendering = Literal["plain", "transformers", "vllm", "sglang"]
Wire = Callable[[Mapping[str, Json], str, str, Mapping[str, Json]], Conversation]
"""(body, template source, content format, the server's template options) -> Conversation; ValueError is a refusal."""


def logged_conversation(
    body: Mapping[str, Json], template: str, content_format: str, server_options: Mapping[str, Json]
) -> Conversation:
    """The body as logged: no conversion at all."""
    del template, content_format
    given = body.get("chat_template_kwargs") or {}
    tools, documents = body.get("tools"), body.get("documents")
    for name, value in (("tools", tools), ("documents", documents)):
        if value is not None and not isinstance(value, list):
            raise ValueError(f"{name} is not a list")
    if not isinstance(given, dict):
        raise ValueError("chat_template_kwargs is not an object")
    continued = body.get("continue_final_message") is True
    generation = body.get("add_generation_prompt")
    return Conversation(
        messages=tuple(body["messages"]),
        tools=None if tools is None else tuple(tools),
        documents=None if documents is None else tuple(documents),
        options={**server_options, **given},
        add_generation_prompt=not continued if generation is None else bool(generation),
        continue_final_message=continued,
    )


WIRES: Mapping[Rendering, Wire] = {
    "plain": logged_conversation,
    "transformers": logged_conversation,
    "vllm": vllm_conversation,
    "sglang": sglang_conversation,
}
RENDERINGS: tuple[Rendering, ...] = tuple(WIRES)

_DEFAULTS: Mapping[str, Rendering] = {"vllm": "vllm", "vllm-ascend": "vllm", "sglang": "sglang"}


def wire(
    rendering: Rendering,
    body: Mapping[str, Json],
    template: str,
    content_format: str,
    server_options: Mapping[str, Json] = MappingProxyType({}),
) -> Conversation:
    """The conversation a server of that kind hands to `template`.

    >>> wire("vllm", {"messages": [{"content": None, "role": "assistant", "x": 1}]}, "", "string").messages
    ({'role': 'assistant', 'content': ''},)
    """
    if rendering not in WIRES:
        raise OptionError(f"--render {rendering!r}: choose from {', '.join(RENDERINGS)}")
    return WIRES[rendering](body, template, content_format, server_options)


def default_rendering(engine: str) -> Rendering:
    """The rendering of an engine when the user chose none; `engine` may carry a version.

    >>> default_rendering("vllm@0.33"), default_rendering("sglang"), default_rendering("openai")
    ('vllm', 'sglang', 'transformers')
    """
    return _DEFAULTS.get(engine.partition("@")[0], "transformers")


_VLLM_OWN = {
    "gpt_oss": "openai-harmony",
    "deepseek_v32": "its DeepSeek V3.2 encoder",
    "deepseek_v4": "its DeepSeek V4 encoder",
    "kimi_k3": "its Kimi K3 renderer",
    "inkling": "its Inkling renderer",
}
_SGLANG_OWN = {
    "gpt_oss": "openai-harmony on /v1/responses",
    "deepseek_v32": "its DeepSeek V3.2 encoder",
    "deepseek_v4": "its DeepSeek V4 encoder",
    "kimi_k3": "its Kimi K3 encoder",
    "minimax_m3": "its MiniMax M3 rules",
}


def caveats(rendering: Rendering, model_type: str | None, *, mistral_tokenizer: bool = False) -> tuple[str, ...]:
    """What the chat template alone can't tell of a model under a rendering: sentences for the report.

    `model_type` is that of config.json; `mistral_tokenizer` tells that the folder holds a tekken.json.
    """
    found: list[str] = []
    if rendering == "sglang":
        found.append("SGLang's conversion was read in its source (0.5.23), not compared with a running server")
    own = {"vllm": _VLLM_OWN, "sglang": _SGLANG_OWN}.get(rendering, {}).get(model_type or "")
    if own is not None:
        server = "vLLM" if rendering == "vllm" else "SGLang"
        found.append(f"{server} renders {model_type} with {own}, not with the chat template used here")
    if rendering == "vllm" and mistral_tokenizer:
        found.append("vLLM may render this model with mistral-common (--tokenizer-mode), not with the chat template")
    return tuple(found)
