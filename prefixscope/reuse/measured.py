"""What the log or the engine's counters measured, against the prediction for exactly the same requests.

Unknown is not zero: rows without a measurement are left out and counted. Rows with n > 1 or several prompts in one
call are left out as well, because engines count their samples and prompts differently in `usage`.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping

import numpy as np

from prefixscope.engines.profile import EngineProfile
from prefixscope.engines.rules import SIZE_RULES, full_units
from prefixscope.engines.versions import parse_version
from prefixscope.errors import FormatError
from prefixscope.index.lineage import UNKNOWN, Int64, Lineage, Mask
from prefixscope.results import Measured

__all__ = ["Counters", "counters_of", "from_counters", "from_log"]

CLOSE = 0.003
"""Prediction and measurement agree when they differ by at most this share of the prompt tokens."""

Counters = Mapping[str, float]

# Cumulative token counters: (looked up or prompt tokens, cached tokens), by engine.
COUNTER_PAIRS = {
    "vLLM prefix_cache counters": ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"),
    "SGLang token counters": ("sglang:prompt_tokens_total", "sglang:cached_tokens_total"),
    "llama.cpp token counters": ("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"),
}
_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?$")


def from_log(lineage: Lineage, cached: Int64, counted: Mask) -> Measured | None:
    """Compares the rows whose log line carries cached tokens; None where no row does."""
    known = counted & (lineage.measured_cached_tokens != UNKNOWN) & (lineage.n == 1)
    if not known.any():
        return None
    measured = lineage.measured_cached_tokens[known]
    prompts = np.where(lineage.measured_prompt_tokens == UNKNOWN, lineage.prompt_tokens, lineage.measured_prompt_tokens)
    predicted = int(cached[known].sum())
    divisor = math.gcd(*measured.tolist())
    return Measured(
        requests=int(known.sum()),
        prompt_tokens=int(prompts[known].sum()),
        cached_tokens=int(measured.sum()),
        predicted_prompt_tokens=int(lineage.prompt_tokens[known].sum()),
        predicted_cached_tokens=predicted,
        unknown_requests=int(counted.sum() - known.sum()),
        source="usage in the log",
        verdict=_verdict(
            int(prompts[known].sum()), int(lineage.prompt_tokens[known].sum()), int(measured.sum()), predicted
        ),
        unit_of_all=divisor & -divisor if divisor else None,
    )


def from_counters(
    before: Counters,
    after: Counters,
    lineage: Lineage,
    cached: Int64,
    counted: Mask,
    profiles: Mapping[str, EngineProfile] | None = None,
) -> Measured:
    """Compares all counted rows with the growth of an engine's cumulative counters between two scrapes.

    The scrapes must enclose the log and nothing else; prompt tokens that do not fit are told in the verdict. vLLM looks
    every sample of a request up, and does not count requests that may not read: with the `profiles` of the pools the
    prediction is made of the same look-ups.
    """
    for source, (queries, hits) in COUNTER_PAIRS.items():
        if queries in after and hits in after:
            prompt_tokens = round(after[queries] - before.get(queries, 0))
            cached_tokens = round(after[hits] - before.get(hits, 0))
            if hits.startswith("llamacpp"):
                prompt_tokens += cached_tokens  # llama.cpp counts only computed tokens as prompt tokens
            if prompt_tokens < 0 or cached_tokens < 0:
                raise FormatError("the counters went backwards between the two scrapes: the engine was restarted")
            looked_up, found = lineage.prompt_tokens, cached
            if profiles and queries.startswith("vllm:"):
                looked_up, found = _look_ups(lineage, cached, profiles)
            predicted_prompt, predicted = int(looked_up[counted].sum()), int(found[counted].sum())
            return Measured(
                requests=int(counted.sum()),
                prompt_tokens=prompt_tokens,
                cached_tokens=cached_tokens,
                predicted_prompt_tokens=predicted_prompt,
                predicted_cached_tokens=predicted,
                unknown_requests=0,
                source=source,
                verdict=_verdict(prompt_tokens, predicted_prompt, cached_tokens, predicted),
                unit_of_all=None,
            )
    names = ", ".join(queries for queries, _ in COUNTER_PAIRS.values())
    raise FormatError(f"no prefix-cache counters in the metrics (looked for {names})")


def _look_ups(lineage: Lineage, cached: Int64, profiles: Mapping[str, EngineProfile]) -> tuple[Int64, Int64]:
    """(tokens looked up, tokens found) of every row with all its samples, as vLLM counts them.

    v1/core/kv_cache_manager.py: record_prefix_cache_stats; seen on 0.32: three samples of 100 tokens count 300 and 192.
    """
    looked_up, found = lineage.prompt_tokens * lineage.n, cached.copy()
    for number, pool in enumerate(lineage.pools):
        profile = profiles.get(pool)
        if profile is None or not profile.name.startswith("vllm"):
            continue
        several = (lineage.pool == number) & (lineage.n > 1) & lineage.reads_cache
        if several.any():
            found[several] += (lineage.n[several] - 1) * _of_a_resend(lineage.prompt_tokens[several], profile)
        if parse_version(profile.name, profile.version, "") >= (0, 32):
            silent = (lineage.pool == number) & ~lineage.reads_cache
            looked_up = np.where(silent, 0, looked_up)
    return looked_up, found


def _of_a_resend(prompts: Int64, profile: EngineProfile) -> Int64:
    """What a prompt finds that was there a moment ago, int64[n]."""
    twice = Lineage.from_lengths([1, *prompts.tolist()], [0] * (len(prompts) + 1), [UNKNOWN] * (len(prompts) + 1))
    shared = np.concatenate([[0], prompts])
    parents = np.where(shared > 0, 0, UNKNOWN)
    again = dataclasses.replace(twice, shared_tokens=shared, shared_prompt_tokens=shared, parent_row=parents)
    rule = profile.rule if profile.rule in SIZE_RULES else full_units
    return rule(again, profile)[1:]


def counters_of(text: str) -> Counters:
    """Counter values by name from a Prometheus text exposition, summed over labels.

    >>> counters_of('vllm:prefix_cache_hits_total{engine="0"} 16\\nvllm:prefix_cache_hits_total{engine="1"} 32\\n')
    {'vllm:prefix_cache_hits_total': 48.0}
    """
    totals: dict[str, float] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line.strip())
        if match is None:
            continue
        name, labels, raw = match.groups()
        try:
            value = float(raw)
        except ValueError:
            continue
        # SGLang also exports cached tokens per tier beside their total; adding both would count them twice.
        if 'cache_source="' in (labels or "") and 'cache_source="total"' not in (labels or ""):
            continue
        if math.isfinite(value):
            totals[name] = totals.get(name, 0.0) + value
    return totals


def _verdict(prompt_tokens: int, predicted_prompt_tokens: int, cached_tokens: int, predicted_cached_tokens: int) -> str:
    if abs(prompt_tokens - predicted_prompt_tokens) > CLOSE * max(prompt_tokens, predicted_prompt_tokens):
        return "prompts_differ"
    if abs(predicted_cached_tokens - cached_tokens) <= CLOSE * prompt_tokens:
        return "agrees"
    return "measured_less" if cached_tokens < predicted_cached_tokens else "measured_more"
