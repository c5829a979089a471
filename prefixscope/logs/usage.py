"""Usage as servers and gateways log it, normalised to (prompt, cached, output) tokens of one API call.

`prompt_tokens` always includes the cached ones afterwards. Null or absent is unknown, which is not zero.

| dialect | prompt | cached |
|---|---|---|
| OpenAI, vLLM, LiteLLM | prompt_tokens | prompt_tokens_details.cached_tokens (LiteLLM also cache_read_input_tokens) |
| DeepSeek | prompt_tokens (else hit + miss) | prompt_cache_hit_tokens |
| Moonshot, SGLang meta_info | prompt_tokens | cached_tokens |
| Responses | input_tokens | input_tokens_details.cached_tokens |
| Anthropic | input_tokens + cache_creation_input_tokens + cache_read_input_tokens | cache_read_input_tokens |
| Gemini | promptTokenCount | cachedContentTokenCount |
"""

from __future__ import annotations

from collections.abc import Mapping

from prefixscope.logs.fields import COUNT_END
from prefixscope.records import Json, Usage

__all__ = ["read_usage"]


class _InvalidCountError(Exception):
    """A count that is not a number of tokens."""


def read_usage(logged: Json) -> tuple[Usage | None, str | None]:
    """The normalised usage, or None with the reason why it was dropped (None when there simply is none).

    >>> read_usage({"input_tokens": 50, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 0})
    (Usage(prompt_tokens=150, cached_tokens=100, output_tokens=None), None)
    >>> read_usage({"prompt_tokens": 10, "cached_tokens": 11})
    (None, 'cached_exceeds_prompt')
    """
    if not isinstance(logged, dict):
        return None, None
    inner = logged.get("usageMetadata", logged.get("usage_metadata"))
    if isinstance(inner, dict):
        logged = inner
    try:
        usage = _normalised(logged)
    except _InvalidCountError:
        return None, "invalid_usage"
    if usage == Usage():
        return None, None
    prompt, cached = usage.prompt_tokens, usage.cached_tokens
    if prompt is not None and cached is not None and cached > prompt:
        return None, "cached_exceeds_prompt"
    return usage, None


def _normalised(logged: Mapping[str, Json]) -> Usage:
    if "promptTokenCount" in logged or "candidatesTokenCount" in logged:
        answer, thoughts = _count(logged, "candidatesTokenCount"), _count(logged, "thoughtsTokenCount")
        output = None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0)
        return Usage(_count(logged, "promptTokenCount"), _count(logged, "cachedContentTokenCount"), output)
    output = _first(_count(logged, "completion_tokens"), _count(logged, "output_tokens"))
    if _count(logged, "prompt_tokens") is None and _count(logged, "input_tokens") is not None:
        return _from_input_tokens(logged, output)
    hit, miss = _count(logged, "prompt_cache_hit_tokens"), _count(logged, "prompt_cache_miss_tokens")
    prompt = _count(logged, "prompt_tokens")
    if prompt is None and hit is not None and miss is not None:
        prompt = hit + miss
    cached = _first(
        _count(_details(logged, "prompt_tokens_details"), "cached_tokens"),
        hit,
        _count(logged, "cached_tokens"),
        _count(logged, "cache_read_input_tokens"),
    )
    return Usage(prompt, cached, output)


def _from_input_tokens(logged: Mapping[str, Json], output: int | None) -> Usage:
    prompt = _count(logged, "input_tokens")
    assert prompt is not None
    details = _details(logged, "input_tokens_details")
    if details:
        return Usage(prompt, _count(details, "cached_tokens"), output)
    read, created = _count(logged, "cache_read_input_tokens"), _count(logged, "cache_creation_input_tokens")
    return Usage(prompt + (read or 0) + (created or 0), _first(read, _count(logged, "cached_tokens")), output)


def _details(logged: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    value = logged.get(key)
    return value if isinstance(value, dict) else {}


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


def _count(logged: Mapping[str, Json], key: str) -> int | None:
    value = logged.get(key)
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < COUNT_END:
        raise _InvalidCountError
    return value
