"""`prefixscope index`."""

from __future__ import annotations

import sys

from prefixscope.cli import options as o
from prefixscope.cli import work_options as w
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of, shown_progress
from prefixscope.output import OutputFile

__all__ = ["index"]


def index(
    logs: o.Logs,
    output: o.IndexFile,
    engine: o.Engine = None,
    model: o.Model = None,
    models: o.Models = None,
    render: o.Render = None,
    format_: o.Format = None,
    namespace_by: o.NamespaceBy = None,
    limit: o.Limit = None,
    workers: w.Workers = None,
    json_file: o.JsonFile = None,
    force: o.Force = False,
    skips: o.Skips = False,
    quiet: o.Quiet = False,
    strict: o.Strict = False,
) -> None:
    """Read and tokenize logs once; every other command that can then starts from the index. It holds no text."""
    from prefixscope import api
    from prefixscope.report.json import index_json
    from prefixscope.report.terminal import index_report

    asked = o.log_options(
        logs, model=model, models_file=models, render=render, format=format_, namespace_by=namespace_by,
        limit=limit, workers=workers, strict=strict,
    )  # fmt: skip
    target = OutputFile(output, option="--output", force=force)
    with Outputs(json_file=json_file, force=force, stdout_is_data=target.is_stdout) as outputs:
        with target as handle, shown_progress(quiet) as progress:
            summary = api.write_index(asked, o.engine_choice(engine), handle, progress)
        outputs.write_json(index_json(summary, output))
    look = look_of(sys.stdout, skips=skips)
    outputs.tell(index_report(summary, output, look), warnings=summary.input.warnings, quiet=quiet)
