"""`prefixscope lint`: explain for continuous integration."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from prefixscope.cli import break_options as b
from prefixscope.cli import options as o
from prefixscope.cli import work_options as w
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of, shown_progress
from prefixscope.errors import GateFailed, InputError
from prefixscope.results.breaks import Fault

__all__ = ["lint"]


def lint(
    logs: o.Logs,
    fail_on: b.FailOn = None,
    annotations: b.Annotations = "auto",
    engine: o.Engine = None,
    block_size: o.BlockSize = None,
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
    for path in logs:
        if is_index(path):
            raise InputError("lint reads prompts; an index holds none", file=path)
    asked = api.ExplainOptions(
        log=o.log_options(
            logs, model=model, models_file=models, render=render, format=format_, namespace_by=namespace_by,
            limit=limit, workers=workers, strict=strict,
        ),
        engine=o.engine_choice(engine, block_size),
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
        if _annotate(annotations) and not outputs.stdout_is_data:
            for line in github_annotations(failing, found.places):
                print(line)
    finally:
        if failing:  # also when nobody reads the report to its end
            raise GateFailed(_sentence(failing))


def _annotate(wanted: str) -> bool:
    return wanted == "github" or (wanted == "auto" and os.environ.get("GITHUB_ACTIONS") == "true")


def _sentence(failing: Sequence[Fault]) -> str:
    named = list(dict.fromkeys(fault.cause for fault in failing))
    requests = sum(fault.requests for fault in failing)
    return f"--fail-on: found {', '.join(named)} in {requests:,} request{'s' if requests != 1 else ''}"
