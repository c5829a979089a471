"""`prefixscope analyze`."""

from __future__ import annotations

import sys

from prefixscope.cli import engine_options as e
from prefixscope.cli import memory_options as m
from prefixscope.cli import options as o
from prefixscope.cli import work_options as w
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of, shown_progress

__all__ = ["analyze"]


def analyze(
    logs: o.Logs,
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
    service_time: e.ServiceTime = None,
    capacity: m.Capacity = None,
    concurrency: m.Concurrency = None,
    kv_dtype: m.KvDtype = None,
    tensor_parallel: m.TensorParallel = None,
    latency_model: m.LatencyModelFile = None,
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
    measured: o.MeasuredBy = None,
    json_file: o.JsonFile = None,
    requests: o.Requests = None,
    force: o.Force = False,
    skips: o.Skips = False,
    hide_text: o.HideText = False,
    quiet: o.Quiet = False,
    strict: o.Strict = False,
    fail_under: o.FailUnder = None,
) -> None:
    """How much of the prefill is repeated work, what an engine can reuse of it, and where the rest goes."""
    from prefixscope import api
    from prefixscope.cli.gates import below
    from prefixscope.report.json import analyze_json
    from prefixscope.report.terminal import analyze_report

    least = o.percent_of(fail_under)
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
            lifetime=lifetime, service_time=service_time,
        ),
        measured=o.measured_of(measured),
        hide_text=hide_text,
        memory=m.memory_options(capacity, concurrency, kv_dtype, tensor_parallel),
        latency_model=latency_model,
    )  # fmt: skip
    with Outputs(json_file=json_file, requests=requests, force=force) as outputs:
        with shown_progress(quiet) as progress:
            analysis = api.analyze(asked, progress)
        outputs.write_json(analyze_json(analysis.reports))
        outputs.write_rows(analysis.rows)
    failed = below(analysis.reports, least)
    try:
        report = analyze_report(analysis.reports, look_of(sys.stdout, skips=skips))
        outputs.tell(report, warnings=analysis.reports[0].input.warnings, quiet=quiet)
    finally:
        if failed is not None:  # also when nobody reads the report to its end
            raise failed
