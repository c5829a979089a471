"""`prefixscope blocks`."""

from __future__ import annotations

import sys

from prefixscope.cli import engine_options as e
from prefixscope.cli import options as o
from prefixscope.cli import work_options as w
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of, shown_progress

__all__ = ["blocks"]


def blocks(
    logs: o.Logs,
    block_sizes: o.BlockSizes = None,
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
    """Reuse and waste for every block size, and the largest size that still has any reuse."""
    from prefixscope import api
    from prefixscope.report.json import blocks_json
    from prefixscope.report.terminal import blocks_report

    asked = api.AnalyzeOptions(
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
        block_sizes=o.block_sizes_of(block_sizes),
    )  # fmt: skip
    with Outputs(json_file=json_file, force=force) as outputs:
        with shown_progress(quiet) as progress:
            report = api.blocks(asked, progress)
        outputs.write_json(blocks_json(report))
    outputs.tell(blocks_report(report, look_of(sys.stdout, skips=skips)), warnings=report.input.warnings, quiet=quiet)
