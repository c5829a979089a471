"""`prefixscope capacity`."""

from __future__ import annotations

import sys

from prefixscope.cli import engine_options as e
from prefixscope.cli import memory_options as m
from prefixscope.cli import options as o
from prefixscope.cli import work_options as w
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of, shown_progress

__all__ = ["capacity"]


def capacity(
    logs: o.Logs,
    capacity: m.Capacity = None,
    ttl: m.Lifetimes = None,
    tier: m.Tiers = None,
    exclusive_tiers: m.ExclusiveTiers = False,
    tier_chunk: m.TierChunk = None,
    prefill_tokens_per_second: m.PrefillSpeed = None,
    latency_model: m.LatencyModelFile = None,
    policy: m.Policies = None,
    concurrency: m.Concurrency = None,
    kv_dtype: m.KvDtype = None,
    tensor_parallel: m.TensorParallel = None,
    engine: o.Engine = None,
    block_size: o.BlockSize = None,
    match_unit: o.MatchUnit = None,
    speculative: o.SpeculativeDecoding = "none",
    engine_url: e.EngineUrl = None,
    platform: e.Platform = None,
    attention_backend: e.AttentionBackend = None,
    retention: e.Retention = None,
    speculative_tokens: e.SpeculativeTokens = None,
    lookahead: e.Lookahead = None,
    max_batched_tokens: e.MaxBatchedTokens = None,
    context_parallel: e.ContextParallel = None,
    partial_reuse: e.PartialReuse = None,
    strip_thinking: e.StripThinking = None,
    slots: e.Slots = None,
    lifetime: e.Lifetime = None,
    model: o.Model = None,
    models: o.Models = None,
    render: o.Render = None,
    format_: o.Format = None,
    namespace_by: o.NamespaceBy = None,
    limit: o.Limit = None,
    workers: w.Workers = None,
    warmup: o.Warmup = "0",
    since: o.Since = None,
    until: o.Until = None,
    cold_start: o.ColdStart = False,
    json_file: o.JsonFile = None,
    force: o.Force = False,
    skips: o.Skips = False,
    quiet: o.Quiet = False,
    strict: o.Strict = False,
) -> None:
    """What every size of KV memory keeps of the reuse, which to pick, and what tiers and other policies would give."""
    from prefixscope import api
    from prefixscope.report.json import capacity_json
    from prefixscope.report.terminal import capacity_report

    asked = api.CapacityOptions(
        log=o.log_options(
            logs, model=model, models_file=models, render=render, format=format_, namespace_by=namespace_by,
            limit=limit, workers=workers, warmup=warmup, since=since, until=until, cold_start=cold_start, strict=strict,
        ),
        engine=o.engine_choice(
            engine, block_size, match_unit, speculative,
            url=engine_url, platform=platform, attention_backend=attention_backend,
            retention=retention, speculative_tokens=speculative_tokens, lookahead=lookahead,
            max_batched_tokens=max_batched_tokens, context_parallel=context_parallel,
            partial_reuse=partial_reuse, strip_thinking=strip_thinking, slots=slots,
            lifetime=lifetime,
        ),
        memory=m.memory_options(capacity, concurrency, kv_dtype, tensor_parallel),
        ttls=tuple(ttl or ()),
        tiers=tuple(tier or ()),
        exclusive_tiers=exclusive_tiers,
        tier_chunk=tier_chunk,
        prefill_tokens_per_second=prefill_tokens_per_second,
        latency_model=latency_model,
        policies=m.names_of(policy),
    )  # fmt: skip
    with Outputs(json_file=json_file, force=force) as outputs:
        with shown_progress(quiet) as progress:
            report = api.capacity(asked, progress)
        outputs.write_json(capacity_json(report))
    look = look_of(sys.stdout, skips=skips)
    outputs.tell(capacity_report(report, look), warnings=report.input.warnings, quiet=quiet)
