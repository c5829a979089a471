"""`prefixscope hashes`."""

from __future__ import annotations

from prefixscope.cli import hash_options as h
from prefixscope.cli import options as o
from prefixscope.cli.screen import say, shown_progress
from prefixscope.output import OutputFile

__all__ = ["hashes"]


def hashes(
    logs: o.Logs,
    output: h.HashFile = "-",
    engine: o.Engine = None,
    algorithm: h.Algorithm = None,
    hash_seed: h.HashSeed = None,
    block_size: o.BlockSize = None,
    speculative: o.SpeculativeDecoding = "none",
    adapter_path: h.AdapterPath = None,
    adapter_id: h.AdapterId = None,
    model: o.Model = None,
    models: o.Models = None,
    render: o.Render = None,
    format_: o.Format = None,
    limit: o.Limit = None,
    with_outputs: h.WithOutputs = False,
    force: o.Force = False,
    skips: o.Skips = False,
    quiet: o.Quiet = False,
    strict: o.Strict = False,
) -> None:
    """The engine's own block-hash chain of each request, as JSON lines in the order of the log."""
    from prefixscope import api
    from prefixscope.report.hash_lines import hash_line, reading_told

    log = o.log_options(
        logs, model=model, models_file=models, render=render, format=format_, limit=limit, strict=strict
    )
    keys = h.hash_options(engine, algorithm, block_size, hash_seed, adapter_path, adapter_id, speculative)
    with OutputFile(output, option="--output", force=force) as handle, shown_progress(quiet) as progress:
        reading = api.hashes(log, keys, progress, with_outputs=with_outputs)
        for request in reading:
            handle.write(hash_line(request))
    if not quiet:
        for sentence in reading_told(reading.input, reading.assumed, skips=skips):
            say(f"prefixscope: {sentence}")
