"""`prefixscope replay`."""

from __future__ import annotations

import sys

from prefixscope.cli import options as o
from prefixscope.cli import replay_options as r
from prefixscope.cli import work_options as w
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of, shown_progress
from prefixscope.errors import GateFailed

__all__ = ["replay"]


def replay(
    logs: o.Logs,
    endpoint: r.Endpoint,
    sample: r.Sample = 200,
    seed: r.Seed = 0,
    dry_run: r.DryRun = False,
    served: r.Served = None,
    phases: r.Phases = "cold,serial,warm,load",
    concurrency: r.Concurrencies = None,
    rate: r.Rates = None,
    speed_up: r.SpeedUps = None,
    switch_model: r.SwitchModels = None,
    send_as: r.SendAs = None,
    max_output_tokens: r.MaxOutputTokens = 1,
    answer_tokens: r.AnswerTokens = 48,
    isolation: r.Isolation = "auto",
    usable_blocks: r.UsableBlocks = None,
    timeout: r.Timeout = None,
    call_rate: r.CallRate = None,
    key_variable: r.KeyVariable = None,
    ca_file: r.CaFile = None,
    run_file: r.RunFile = None,
    resume: r.Resume = False,
    validate: r.Validate = False,
    latency_file: r.LatencyFile = None,
    engine: o.Engine = None,
    block_size: o.BlockSize = None,
    match_unit: o.MatchUnit = None,
    speculative: o.SpeculativeDecoding = "none",
    model: o.Model = None,
    models: o.Models = None,
    render: o.Render = None,
    format_: o.Format = None,
    limit: o.Limit = None,
    workers: w.Workers = None,
    json_file: o.JsonFile = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    strict: o.Strict = False,
) -> None:
    """Send a sample of the log to a live engine, cold and warm, and compare the prediction with what it measured."""
    from prefixscope import api
    from prefixscope.report.replay_json import latency_json, replay_json
    from prefixscope.report.terminal.replay import dry_run_report, replay_report

    log = o.log_options(
        logs, model=model, models_file=models, render=render, format=format_, limit=limit, workers=workers,
        strict=strict,
    )  # fmt: skip
    choice = api.ReplayChoice(
        endpoint=endpoint, sample=sample, seed=seed, served=tuple(served or ()),
        phases=tuple(name.strip() for name in phases.split(",") if name.strip()),
        concurrencies=tuple(concurrency or ()), rates=tuple(rate or ()), speed_ups=tuple(speed_up or ()),
        switch_models=tuple(switch_model or ()), send_as=send_as, isolation=isolation, usable_blocks=usable_blocks,
        max_output_tokens=max_output_tokens, answer_tokens=answer_tokens, timeout_s=timeout, call_rate=call_rate,
        run_file=run_file, resume=resume, validate=validate, key_variable=key_variable, ca_file=ca_file,
        engine=o.engine_choice(engine, block_size, match_unit, speculative),
    )  # fmt: skip
    look = look_of(sys.stdout)
    files = {"--latency-file": latency_file}
    with Outputs(json_file=json_file, force=force, more=files) as outputs:
        with shown_progress(quiet) as progress:
            prepared = api.prepare_replay(log, choice, progress)
            report = None if dry_run else api.run_replay(prepared, progress)
        outputs.write_json(replay_json(prepared.input, prepared.sample, prepared.plan, report))
        if report is not None:
            outputs.write("--latency-file", latency_json(report.latency, report.latency_why))
    if report is None:
        outputs.tell(dry_run_report(prepared.sample, prepared.plan, look))
    else:
        outputs.tell(replay_report(prepared.sample, report, look))
    if report is not None and report.interrupted:
        raise KeyboardInterrupt
    if report is not None and validate and report.gate:
        raise GateFailed("--validate: " + "; ".join(report.gate))
