"""`prefixscope explain`."""

from __future__ import annotations

import sys

from prefixscope.cli import break_options as b
from prefixscope.cli import engine_options as e
from prefixscope.cli import memory_options as m
from prefixscope.cli import options as o
from prefixscope.cli import work_options as w
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of, shown_progress

__all__ = ["explain"]


def explain(
    logs: o.Logs,
    request: b.Request = None,
    what_if: b.WhatIf = None,
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
    kv_dtype: m.KvDtype = None,
    tensor_parallel: m.TensorParallel = None,
    ttl: b.TimeToLive = None,
    reset_at: b.ResetTimes = None,
    kv_events: b.KvEvents = None,
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
    requests: o.Requests = None,
    force: o.Force = False,
    skips: o.Skips = False,
    hide_text: o.HideText = False,
    quiet: o.Quiet = False,
    strict: o.Strict = False,
) -> None:
    """Where prefixes break, why, what each cause costs, and what removing it gives."""
    from prefixscope import api
    from prefixscope.report.json_breaks import explain_json
    from prefixscope.report.terminal.breaks import explain_report
    from prefixscope.report.terminal.head import assumed_line
    from prefixscope.report.terminal.story import request_story

    asked = api.ExplainOptions(
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
        memory=m.memory_options(capacity, None, kv_dtype, tensor_parallel),
        ttl=ttl,
        reset_at=tuple(reset_at or ()),
        kv_events=kv_events,
        request=request,
        what_if=b.causes_of(what_if),
        hide_text=hide_text,
    )  # fmt: skip
    with Outputs(json_file=json_file, requests=requests, force=force) as outputs:
        with shown_progress(quiet) as progress:
            found = api.explain(asked, progress)
        outputs.write_json(explain_json(found.report, found.story))
        outputs.write_rows(found.rows)
    look = look_of(sys.stdout, skips=skips)
    assumed = tuple(dict.fromkeys(map(assumed_line, found.engines)))
    report = (
        request_story(found.story, look) if found.story is not None else explain_report(found.report, assumed, look)
    )
    outputs.tell(report, warnings=found.report.input.warnings, quiet=quiet)
