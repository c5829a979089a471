"""Results made by hand, for reports to print."""

from __future__ import annotations

import dataclasses
from typing import Any

from prefixscope.results import (
    AnalyzeReport,
    BlockSizeRow,
    EngineUsed,
    Group,
    InputReport,
    Losses,
    Measured,
    PoolReport,
    Prefix,
    Rung,
    Skip,
    Totals,
    Warned,
    rate,
)

SECOND = 1_000_000_000
START = 1_795_000_000 * SECOND


def input_report(**changes: Any) -> InputReport:
    report = InputReport(
        files=("support.jsonl",),
        formats=("native",),
        tier=3,
        requests_read=48_377,
        requests_analyzed=48_210,
        skipped=(
            Skip("support.jsonl", 7, "failed_before_prefill", 140),
            Skip("support.jsonl", 90, "invalid_json", 26),
            Skip("support.jsonl", 48_377, "truncated_last_line"),
        ),
        warnings=(Warned("approximate_outputs", {"requests": 12_000}), Warned("byte_order_mark", {"line": 1})),
        time_is_relative=False,
        ties=3,
        first_time_ns=START,
        last_time_ns=START + 86_000 * SECOND,
        outputs={"ids": 0, "text": 48_210, "length": 0, "unknown": 0},
    )
    return dataclasses.replace(report, **changes)


def totals(
    prompt: int, reusable: int, losses: Losses, *, requests: int = 48_210, simulated: int = 0, **changes: Any
) -> Totals:
    cached = reusable - losses.last_token - losses.block_rounding - losses.engine_rule
    expected = cached - simulated
    made = Totals(
        requests=requests,
        prompt_tokens=prompt,
        output_tokens=None,
        stored_unique_tokens=prompt - reusable,
        first_seen_tokens=prompt - reusable,
        reusable_tokens=reusable,
        reusable_prompt_only_tokens=reusable,
        ideal_prefill_tokens=prompt - reusable,
        cached_tokens=cached,
        prefill_tokens=prompt - cached,
        expected_cached_tokens=expected,
        expected_prefill_tokens=prompt - expected,
        hit_blocks=cached // 16,
        blocks=-(-prompt // 16),
        token_hit_rate=rate(cached, prompt),
        expected_token_hit_rate=rate(expected, prompt),
        second_half_token_hit_rate=0.66,
        block_hit_rate=rate(cached // 16, -(-prompt // 16)),
        mean_request_hit_rate=0.58,
        losses=losses,
    )
    return dataclasses.replace(made, **changes)


VLLM = EngineUsed("vllm", "0.33", 16, 16, "none", (), "defaults")
SGLANG = EngineUsed("sglang", "0.5.23", 1, 1, "none", (), "defaults")


def ladder(sums: Totals) -> tuple[Rung, ...]:
    left = sums.reusable_tokens
    rungs = [Rung("reusable", left, rate(left, sums.prompt_tokens), None, "token granular, nothing forgotten")]
    for name in ("last_token", "block_rounding", "engine_rule", "in_flight", "routing", "capacity"):
        lost = getattr(sums.losses, name)
        left -= lost or 0
        known = lost is not None
        share = rate(left, sums.prompt_tokens)
        rungs.append(Rung(name, left if known else None, share if known else None, lost, f"the rule of {name}"))
    return tuple(rungs)


def block_sizes(sums: Totals) -> tuple[BlockSizeRow, ...]:
    rows = []
    for power in range(13):
        size = 1 << power
        cached = max(sums.reusable_tokens - sums.requests * size // 2, 0)
        hits = rate(cached, sums.prompt_tokens)
        row = BlockSizeRow(
            size, cached, sums.prompt_tokens - cached, hits, hits, 100, sums.requests * (size - 1) // 2, size >= 16
        )
        rows.append(row)
    return tuple(rows)


def pool(sums: Totals, engine: EngineUsed = VLLM, name: str = "Qwen/Qwen3-8B") -> PoolReport:
    models = ("support-de", "support-en")
    return PoolReport(name, models, engine, sums, ladder(sums), block_sizes(sums), 1842)


def group(by: str, name: str | None, prompt: int, reusable: int, cached: int) -> Group:
    hits = rate(cached, prompt)
    return Group(by, name, 100, prompt, reusable, cached, cached, hits, hits)


MEASURED = Measured(
    31_002, 290_000_000, 110_500_000, 290_000_000, 182_700_000, 17_208, "usage in the log", "measured_less", 16
)


def analyze_report(**changes: Any) -> AnalyzeReport:
    sums = totals(408_100_000, 291_300_000, Losses(0, 34_200_000, 0))
    report = AnalyzeReport(
        input=input_report(),
        totals=sums,
        pools=(pool(sums),),
        groups=(
            group("model", "support-de", 300_000_000, 200_000_000, 190_000_000),
            group("model", "support-en", 108_100_000, 91_300_000, 67_100_000),
            group("namespace", "Qwen/Qwen3-8B", 408_100_000, 291_300_000, 257_100_000),
        ),
        prefixes=(Prefix(1842, 21_300, 38_100_000, "Qwen/Qwen3-8B", "You are the support assistant of Breadline."),),
        sessions={"count": 900},
        measured=None,
        unexplained_tokens=None,
        method={"first_half": "warm-up"},
    )
    return dataclasses.replace(report, **changes)


def two_pools() -> AnalyzeReport:
    large = totals(300_000_000, 200_000_000, Losses(0, 10_000_000, 0), requests=40_000)
    small = totals(108_100_000, 91_300_000, Losses(0, 24_200_000, 0), requests=8_210)
    both = totals(408_100_000, 291_300_000, Losses(0, 34_200_000, 0))
    return analyze_report(totals=both, pools=(pool(large), pool(small, SGLANG, "meta/llama")))


def sglang_report() -> AnalyzeReport:
    sums = totals(408_100_000, 291_300_000, Losses(90_000, 0, 0))
    return analyze_report(totals=sums, pools=(pool(sums, SGLANG),))


def empty_report() -> AnalyzeReport:
    nothing = totals(0, 0, Losses(0, 0, 0), requests=0, second_half_token_hit_rate=None, mean_request_hit_rate=None)
    read = input_report(
        requests_read=0, requests_analyzed=0, skipped=(), warnings=(), tier=None, formats=(), first_time_ns=None,
        last_time_ns=None, outputs={},
    )  # fmt: skip
    return AnalyzeReport(read, nothing, (), (), (), {}, None, None, {})
