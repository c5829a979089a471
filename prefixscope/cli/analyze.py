"""`prefixscope analyze`."""

from __future__ import annotations

import sys

from prefixscope.cli import options as o
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of, shown_progress

__all__ = ["analyze"]


def analyze(
    logs: o.Logs,
    engine: o.Engine = None,
    block_size: o.BlockSize = None,
    match_unit: o.MatchUnit = None,
    speculative: o.SpeculativeDecoding = "none",
    model: o.Model = None,
    models: o.Models = None,
    render: o.Render = None,
    format_: o.Format = None,
    namespace_by: o.NamespaceBy = None,
    limit: o.Limit = None,
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
            limit=limit, warmup=warmup, since=since, until=until, cold_start=cold_start, strict=strict,
        ),
        engine=o.engine_choice(engine, block_size, match_unit, speculative),
        measured=o.measured_of(measured),
        hide_text=hide_text,
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
