"""One answer, normalised: tokens counted, tokens cached, ids and log-probabilities, from whichever fields carry them.

Unknown is None. Where several fields tell the cached tokens the first of these counts: `usage.prompt_tokens_details`
(vLLM, SGLang, TensorRT-LLM, llama.cpp), `meta_info.cached_tokens` (SGLang), `timings.cache_n` (llama.cpp),
`usage.prompt_cache_hit_tokens` (DeepSeek).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prefixscope.records import Json

__all__ = ["CACHED_TOKENS_FLAG", "Reading", "ReadingBuilder"]

CACHED_TOKENS_FLAG = {
    "vllm": "--enable-prompt-tokens-details",
    "vllm-ascend": "--enable-prompt-tokens-details",
    "sglang": "--enable-cache-report",
    "dynamo-router": "--enable-prompt-tokens-details on the vLLM workers, --enable-cache-report on SGLang workers",
}
"""The server flag that makes usage tell cached tokens, by engine; engines that are not here need none."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one answer told. `logprobs` belong to the generated tokens; `runner_up` the second choice's, if told."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    cached_source: str | None = None
    output_tokens: int | None = None
    prompt_ids: tuple[int, ...] | None = None
    output_ids: tuple[int, ...] | None = None
    text: str = ""
    logprobs: tuple[float, ...] = ()
    runner_up: tuple[float, ...] = ()
    finish_reason: str | None = None


@dataclass(slots=True)
class ReadingBuilder:
    """Collects the chunks of one answer; `add` returns how many generated tokens (or bits of text) a chunk brought."""

    _text: list[str] = field(default_factory=list)
    _ids: list[int] = field(default_factory=list)
    _ids_seen: bool = False
    _pieces: int = 0
    _prompt_ids: tuple[int, ...] | None = None
    _usage: Mapping[str, Any] = field(default_factory=dict)
    _cached: tuple[int, str] | None = None
    _logprobs: list[float] = field(default_factory=list)
    _runner_up: list[float] = field(default_factory=list)
    finish_reason: str | None = None

    def add(self, chunk: Json) -> int:
        """Takes one decoded event of a stream, or a whole answer that was not streamed."""
        if not isinstance(chunk, Mapping):
            return 0
        if isinstance(chunk.get("usage"), Mapping):
            self._usage = chunk["usage"]
        self._cached = self._cached or _cached_outside_usage(chunk)
        self._take_prompt_ids(chunk.get("prompt_token_ids"))
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
            return 0
        return self._add_choice(choices[0])

    def _add_choice(self, choice: Mapping[str, Any]) -> int:
        self._take_prompt_ids(choice.get("prompt_token_ids"))
        self._cached = self._cached or _cached_outside_usage(choice)
        if choice.get("finish_reason"):
            self.finish_reason = str(choice["finish_reason"])
        said = choice.get("delta") or choice.get("message") or {}
        texts = [choice.get("text"), *(said.get(name) for name in ("content", "reasoning", "reasoning_content"))]
        text = "".join(part for part in texts if isinstance(part, str))
        self._text.append(text)
        self._take_logprobs(choice.get("logprobs"))
        ids = choice.get("token_ids")
        if isinstance(ids, list):
            self._ids_seen = True
            self._ids.extend(ids)
            brought = len(ids)
        else:
            brought = int(bool(text or said.get("tool_calls")))
        self._pieces += brought
        return brought

    def _take_prompt_ids(self, ids: Json) -> None:
        if isinstance(ids, list) and self._prompt_ids is None:
            self._prompt_ids = tuple(ids)

    def _take_logprobs(self, logprobs: Json) -> None:
        if not isinstance(logprobs, Mapping):
            return
        if isinstance(logprobs.get("token_logprobs"), list):  # /v1/completions
            tops = logprobs.get("top_logprobs") or [None] * len(logprobs["token_logprobs"])
            for value, top in zip(logprobs["token_logprobs"], tops, strict=False):
                self._take_one(value, sorted(top.values(), reverse=True) if isinstance(top, Mapping) else [])
        for entry in logprobs.get("content") or ():  # /v1/chat/completions
            tops = sorted((top["logprob"] for top in entry.get("top_logprobs") or ()), reverse=True)
            self._take_one(entry["logprob"], tops)

    def _take_one(self, value: float | None, tops: list[float]) -> None:
        self._logprobs.append(float("nan") if value is None else value)
        self._runner_up.append(tops[1] if len(tops) > 1 else float("nan"))

    def reading(self) -> Reading:
        """Everything the chunks told."""
        usage = self._usage
        cached = _cached_in(usage) or self._cached
        output = _count(usage, "completion_tokens")
        return Reading(
            prompt_tokens=_count(usage, "prompt_tokens"),
            cached_tokens=None if cached is None else cached[0],
            cached_source=None if cached is None else cached[1],
            output_tokens=output if output is not None else (len(self._ids) if self._ids_seen else None),
            prompt_ids=self._prompt_ids,
            output_ids=tuple(self._ids) if self._ids_seen else None,
            text="".join(self._text),
            logprobs=tuple(self._logprobs),
            runner_up=tuple(self._runner_up),
            finish_reason=self.finish_reason,
        )


def _count(fields: Json, name: str) -> int | None:
    value = fields.get(name) if isinstance(fields, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _cached_in(usage: Mapping[str, Any]) -> tuple[int, str] | None:
    told = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    if told is not None:
        return told, "usage.prompt_tokens_details.cached_tokens"
    told = _count(usage, "prompt_cache_hit_tokens")
    return None if told is None else (told, "usage.prompt_cache_hit_tokens")


def _cached_outside_usage(fields: Mapping[str, Any]) -> tuple[int, str] | None:
    for outer, inner in (("meta_info", "cached_tokens"), ("timings", "cache_n")):
        told = _count(fields.get(outer), inner)
        if told is not None:
            return told, f"{outer}.{inner}"
    return None
