"""`prefixscope lint`: explain for continuous integration."""

from __future__ import annotations

import sys

from prefixscope.cli import break_options as b
from prefixscope.cli import engine_options as e
from prefixscope.cli import memory_options as m
from prefixscope.cli import options as o
from prefixscope.cli import work_options as w
from prefixscope.cli.lint_outcome import failing_sentence, shown_on_github
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of, shown_progress
from prefixscope.errors import GateFailed, InputError

__all__ = ["lint"]


def lint(
    logs: o.Logs,
    fail_on: b.FailOn = None,
    annotations: b.Annotations = "auto",
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
    json_file: o.JsonFile = None,
    force: o.Force = False,
    hide_text: o.HideText = False,
    quiet: o.Quiet = False,
    strict: o.Strict = False,
) -> None:
    """Check recorded prompts for what breaks prefixes; exit 3 where a cause of --fail-on is found."""
    from prefixscope import api
    from prefixscope.logs import is_index
    from prefixscope.report.annotations import github_annotations
    from prefixscope.report.json_breaks import explain_json
    from prefixscope.report.terminal.breaks import lint_report

    causes = b.fail_on_of(fail_on)
    for path in filter(is_index, logs):
        raise InputError("lint reads prompts; an index holds none", file=path)
    asked = api.ExplainOptions(
        log=o.log_options(
            logs, model=model, models_file=models, render=render, format=format_, namespace_by=namespace_by,
            limit=limit, workers=workers, strict=strict,
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
        what_if=(),
        hide_text=hide_text,
    )  # fmt: skip
    with Outputs(json_file=json_file, force=force) as outputs:
        with shown_progress(quiet) as progress:
            found = api.explain(asked, progress)
        outputs.write_json(explain_json(found.report, command="lint"))
    failing = [fault for fault in found.report.faults if fault.cause in causes]
    try:
        outputs.tell(lint_report(found.report, failing, look_of(sys.stdout)), quiet=True)
        if shown_on_github(annotations) and not outputs.stdout_is_data:
            for line in github_annotations(failing, found.places):
                print(line)
    finally:
        if failing:  # also when nobody reads the report to its end
            raise GateFailed(failing_sentence(failing))
