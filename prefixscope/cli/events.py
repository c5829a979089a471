"""`prefixscope events`."""

from __future__ import annotations

import contextlib
import sys

from prefixscope.cli import hash_options as h
from prefixscope.cli import options as o
from prefixscope.cli.listening import until_interrupted
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of, say, shown_progress
from prefixscope.errors import OptionError
from prefixscope.output import OutputFile

__all__ = ["events"]


def events(
    source: h.EventSource,
    log: h.EventLogs = None,
    engine: o.Engine = None,
    algorithm: h.Algorithm = None,
    hash_seed: h.HashSeed = None,
    block_size: o.BlockSize = None,
    adapter_path: h.AdapterPath = None,
    adapter_id: h.AdapterId = None,
    replay_endpoint: h.ReplayEndpoint = None,
    topic: h.Topic = None,
    idle: h.Idle = None,
    batches: h.Batches = None,
    at: h.AtTime = None,
    model: o.Model = None,
    models: o.Models = None,
    render: o.Render = None,
    format_: o.Format = None,
    limit: o.Limit = None,
    record: h.Record = None,
    json_file: o.JsonFile = None,
    requests: o.Requests = None,
    force: o.Force = False,
    skips: o.Skips = False,
    quiet: o.Quiet = False,
    strict: o.Strict = False,
) -> None:
    """Recorded or live KV events: every hash derived again, what was held when, and the fate of a log's blocks."""
    from prefixscope import api
    from prefixscope.report.json import events_json
    from prefixscope.report.terminal.events import events_report

    if requests is not None and not log:
        raise OptionError("--requests tells of the requests of a log; name it with --log")
    keys = h.hash_options(engine, algorithm, block_size, hash_seed, adapter_path, adapter_id)
    read = None if not log else o.log_options(
        log, model=model, models_file=models, render=render, format=format_, limit=limit, strict=strict
    )  # fmt: skip
    recording = None if record is None else OutputFile(record, option="--record", force=force)
    to_stdout = recording is not None and recording.is_stdout
    with contextlib.ExitStack() as stack:
        outputs = stack.enter_context(
            Outputs(json_file=json_file, requests=requests, force=force, stdout_is_data=to_stdout)
        )
        handle = None if recording is None else stack.enter_context(recording)
        asked = api.events_options(
            source, replay_endpoint=replay_endpoint, topic=topic, idle=idle, batches=batches, at=at,
            stop=stack.enter_context(until_interrupted()) if api.is_endpoint(source) else None,
        )  # fmt: skip
        if asked.is_live and not quiet:
            say(f"prefixscope: listening to {source}; Ctrl-C ends it and reports")
        checked = api.events(asked, keys, read, stack.enter_context(shown_progress(quiet)), handle)
        outputs.write_json(events_json(checked.report))
        outputs.write_rows(checked.rows)
    warnings = () if checked.report.log is None else checked.report.log.input.warnings
    outputs.tell(events_report(checked.report, look_of(sys.stdout, skips=skips)), warnings=warnings, quiet=quiet)
