"""From a logged request to the HTTP body that is sent: the prompt stays as it was logged, what surrounds it is set.

Fields that would spoil the measurement are changed and named in `CHANGED`: several samples and prompt log-probabilities
make usage lie or skip the cache (seen on vLLM), streaming and the temperature are set, the answer is cut short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from prefixscope.records import Json
from prefixscope.replay.item import ReplayItem, ids_of

__all__ = ["CHANGED", "SALTED", "Call", "Scope", "build_call", "tokenize_body"]

SendAs = Literal["ids", "body"]

CHANGED = (
    "n and best_of (set to 1: usage counts several samples differently per engine)",
    "prompt_logprobs, echo (left out: they skip the cache)",
    "stream, stream_options, temperature, max_tokens (set by the replay)",
    "tool_choice (none on vLLM, whose rendering does not depend on it: auto needs a server flag)",
)
"""What the replay changes in a logged body."""

_DROPPED = (
    "n", "best_of", "prompt_logprobs", "prompt_logprob_token_ids", "echo", "logprobs", "top_logprobs",
    "max_tokens", "max_completion_tokens", "min_tokens", "stream", "stream_options", "temperature", "top_p", "seed",
    "cache_salt", "extra_key", "model",
)  # fmt: skip
_LENGTH_IS_KEPT = ("vllm", "vllm-ascend", "sglang", "llama-cpp")
SALTED = ("vllm", "vllm-ascend", "sglang")
"""Engines whose OpenAI body has `cache_salt`."""

EXTRA_KEYED = ("sglang",)
_RETURNS_IDS = ("vllm", "vllm-ascend")


@dataclass(frozen=True, slots=True)
class Scope:
    """What keeps one cold start apart from all others; a reset leaves every field empty.

    `salt` and `extra_key` are put before the request's own. `first_block` gives the token ids to put before a prompt:
    the same ones for prompts with the same first token, so that prompts that shared nothing still share nothing.
    """

    salt: str | None = None
    extra_key: str | None = None
    first_block: Callable[[bytes], bytes] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP call that makes the endpoint generate, and the prompt it stands for.

    `tokens` are the prompt's ids as sent (or as we believe the endpoint renders the body); `namespace` is what must be
    equal for sharing.
    """

    path: str
    body: Mapping[str, Json]
    tokens: bytes
    namespace: tuple[str, ...]
    model: str
    as_ids: bool

    @property
    def prompt_tokens(self) -> int:
        """P of the prompt as sent."""
        return len(self.tokens) // 4


def build_call(
    item: ReplayItem,
    scope: Scope,
    *,
    engine: str | None,
    send_as: SendAs,
    output_tokens: int = 1,
    logprobs: bool = False,
    weights: Mapping[str, str] = MappingProxyType({}),
) -> Call:
    """The call for one item within one cold start.

    What the call may share with others follows from what is sent, not from what the log says: the weights behind the
    model's name (`weights`; the name itself where that is not told), the salt and the extra key.

    >>> from prefixscope.replay.item import tokens_of
    >>> item = ReplayItem(0, "tokens", {}, tokens_of([1, 2]), "m")
    >>> call = build_call(item, Scope(salt="s"), engine="vllm", send_as="ids")
    >>> call.path, call.body["prompt"], call.body["cache_salt"], call.body["max_tokens"]
    ('/completions', [1, 2], 's', 1)
    """
    as_ids = send_as == "ids" or item.kind == "tokens"
    chat = item.kind == "chat" and not as_ids
    tokens = item.tokens if scope.first_block is None else scope.first_block(item.tokens) + item.tokens
    body: dict[str, Any] = {"model": item.model}
    if as_ids:
        body["prompt"] = ids_of(tokens)
    else:
        assert scope.first_block is None, "a first block can only be put before token ids"
        body.update({name: value for name, value in item.body.items() if name not in _DROPPED and value is not None})
    _separate(body, item, scope, engine)
    _set_answer(body, engine, chat=chat, output_tokens=output_tokens, logprobs=logprobs)
    return Call(
        path="/chat/completions" if chat else "/completions",
        body=body,
        tokens=tokens,
        namespace=(weights.get(item.model, item.model), body.get("cache_salt", ""), body.get("extra_key", "")),
        model=item.model,
        as_ids=as_ids,
    )


def _set_answer(body: dict[str, Any], engine: str | None, *, chat: bool, output_tokens: int, logprobs: bool) -> None:
    """How the answer is made and told: greedy, streamed, so long, with ids and log-probabilities where they are had."""
    body["max_tokens"] = output_tokens
    body["temperature"] = 0
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    if engine in _RETURNS_IDS:
        body["return_token_ids"] = True
    if engine in _RETURNS_IDS and chat and body.get("tools"):
        body["tool_choice"] = "none"
    if engine in _LENGTH_IS_KEPT and output_tokens > 1:
        body["ignore_eos"] = True
    if logprobs:
        body.update({"logprobs": True, "top_logprobs": 2} if chat else {"logprobs": 2})


def _separate(body: dict[str, Any], item: ReplayItem, scope: Scope, engine: str | None) -> None:
    """The run's own salt, followed by the logged one where the engine heeds it: what was separate stays separate."""
    for name, ours, heeding in (("cache_salt", scope.salt, SALTED), ("extra_key", scope.extra_key, EXTRA_KEYED)):
        logged = item.body.get(name) if engine in heeding else None
        parts = [part for part in (ours, logged) if isinstance(part, str) and part]
        if parts:
            body[name] = ".".join(parts)


def tokenize_body(item: ReplayItem) -> dict[str, Json]:
    """What to ask vLLM's /tokenize for the ids it renders from the logged body."""
    if item.kind == "text":
        return {"model": item.model, "prompt": item.body["prompt"]}
    names = (
        "messages", "tools", "documents", "chat_template", "chat_template_kwargs", "add_generation_prompt",
        "continue_final_message", "add_special_tokens", "reasoning_effort", "mm_processor_kwargs",
    )  # fmt: skip
    asked = {name: item.body[name] for name in names if item.body.get(name) is not None}
    return {"model": item.model, "add_generation_prompt": True, **asked}
