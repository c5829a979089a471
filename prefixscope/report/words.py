"""The words of reports: names of rungs, engines and groups, why input was left out, what a comparison comes to.

A name that is not listed is still told, as it is. What warnings mean stands in `report.warnings`.
"""

from __future__ import annotations

from collections.abc import Mapping

from prefixscope.report.numbers import count
from prefixscope.report.text import visible
from prefixscope.results import EngineUsed, Skip

__all__ = [
    "GROUPS",
    "RUNG_OPTIONS",
    "RUNG_WORDS",
    "SKIP_WORDS",
    "TIERS",
    "engine_name",
    "readable",
    "skip_in_words",
    "skips_in_words",
    "verdict_in_words",
]

RUNG_WORDS: Mapping[str, str] = {
    "reusable": "ideal (token granular, nothing forgotten)",
    "last_token": "last token of full hits",
    "block_rounding": "block rounding",
    "engine_rule": "engine rule",
    "in_flight": "in flight (overlapping requests)",
    "routing": "routing (several replicas)",
    "capacity": "capacity (finite memory)",
}
"""The rungs of the ladder as the user reads them."""

RUNG_OPTIONS: Mapping[str, str] = {"routing": "--replicas", "capacity": "--capacity"}
"""What would simulate a rung; told only by builds that have the option."""

TIERS: Mapping[int, str] = {
    1: "token ids",
    2: "templated prompt text",
    3: "wire bodies",
    4: "re-serialised messages",
    5: "hash ids",
    6: "lengths only",
}
"""Grades of evidence, best first."""

GROUPS: Mapping[str, str] = {
    "model": "models",
    "namespace": "namespaces (share nothing with each other)",
    "session": "sessions",
    "tenant": "tenants",
    "replica": "replicas",
    "adapter": "adapters",
    "pool": "pools (share memory)",
}

_ENGINES: Mapping[str, str] = {
    "vllm": "vLLM",
    "vllm-ascend": "vLLM Ascend",
    "sglang": "SGLang",
    "tensorrt-llm": "TensorRT-LLM",
    "dynamo-router": "Dynamo router",
    "lmcache": "LMCache",
    "llama-cpp": "llama.cpp",
    "openai": "OpenAI",
    "anthropic": "Anthropic",
    "deepseek": "DeepSeek",
    "gemini": "Gemini",
    "qwen": "Qwen",
    "trace": "hashes as logged",
}

SKIP_WORDS: Mapping[str, str] = {
    "bad_body": "with a body that can't be rendered",
    "bad_hash_ids": "with hash ids that are no ids",
    "bad_token_ids": "with token ids that are no ids",
    "corrupt_gzip": "behind damaged gzip data",
    "corrupt_zstd": "behind damaged zstd data",
    "delta_turn_unsupported": "that only log what a turn added",
    "failed_before_prefill": "never reached prefill",
    "hash_ids_do_not_match_length": "with hash ids that do not fit their length",
    "health_check": "health checks",
    "invalid_hash_ids": "with hash ids that are no ids",
    "invalid_input_length": "with an input length that is no length",
    "invalid_json": "not valid JSON",
    "invalid_messages": "with messages of the wrong shape",
    "invalid_prompt": "with a prompt of the wrong type",
    "invalid_token_ids": "with token ids that are no ids",
    "invalid_utf8": "not UTF-8",
    "lengths_only": "with nothing but lengths, which can't be compared",
    "line_too_long": "too long for a request",
    "media_not_hashable": "with images, audio or video, whose tokens are not known",
    "embeddings_without_length": "given as embeddings of unknown length",
    "no_prompt": "without a prompt",
    "not_a_generation_call": "no generation calls",
    "not_a_session": "no sessions",
    "not_an_object": "no JSON objects",
    "redacted_prompt": "with a redacted prompt",
    "response_cache_hit": "answered from a response cache",
    "too_deeply_nested": "nested too deeply",
    "truncated_document": "cut off at the end",
    "truncated_gzip": "behind the end of cut-off gzip data",
    "truncated_last_line": "cut off at the end",
    "truncated_zstd": "behind the end of cut-off zstd data",
    "unreadable_request_body": "with a body that can't be read",
    "unrenderable": "refused by the chat template",
    "unsupported_api": "of an API that is not read",
}
"""Why input was left out, as said behind a number ("27 not valid JSON")."""


def engine_name(engine: EngineUsed) -> str:
    """Engine and version as their makers write them.

    >>> engine_name(EngineUsed("vllm", "0.33", 16, 16, "none", (), "defaults"))
    'vLLM 0.33'
    """
    return f"{_ENGINES.get(engine.name, visible(engine.name))} {engine.version}".rstrip()


def skip_in_words(reason: str) -> str:
    """A reason for leaving input out, as said behind a number; a reason not listed is said as it is.

    >>> skip_in_words("invalid_json"), skip_in_words("some_new_reason")
    ('not valid JSON', 'some new reason')
    """
    return SKIP_WORDS.get(reason) or readable(reason)


def skips_in_words(skips: tuple[Skip, ...], most: int = 4) -> str:
    """How much was left out for which reasons, the most frequent first.

    >>> skips_in_words((Skip("a", 3, "no_prompt"), Skip("a", 9, "invalid_json", 2), Skip("b", 1, "no_prompt", 4)))
    '5 without a prompt, 2 not valid JSON'
    """
    counts: dict[str, int] = {}
    for skip in skips:
        counts[skip.reason] = counts.get(skip.reason, 0) + skip.count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    said = [f"{count(number)} {skip_in_words(reason)}" for reason, number in ordered[:most]]
    rest = sum(number for _, number in ordered[most:])
    return ", ".join([*said, f"{count(rest)} for other reasons"] if rest else said)


_VERDICTS: Mapping[str, str] = {
    "agrees": "the prediction holds",
    "measured_less": "the engine reused less than predicted: memory, routing or overlap took it, or its cache was off",
    "measured_more": (
        "the engine reused more than predicted: its cache was warm before the log starts, it reused answers whose "
        "tokens the log does not tell, or a setting differs"
    ),
    "prompts_differ": (
        "prompt tokens are not the engine's, so nothing else can be compared: check --model, its template and "
        "--render, or that the counters enclose just this log"
    ),
}


def verdict_in_words(verdict: str) -> str:
    """What the comparison of measured and predicted comes to; a sentence stays as it is."""
    return _VERDICTS.get(verdict) or readable(verdict)


def readable(name: str) -> str:
    """An identifier as words; what has spaces already is left as it is.

    >>> readable("some_new_reason")
    'some new reason'
    """
    shown = visible(name)
    return shown if " " in shown else shown.replace("_", " ")
