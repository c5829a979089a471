"""Profile `trace`: what a hash trace itself counts. One id is one block; the default for hash rows."""

from __future__ import annotations

from prefixscope.engines.profile import EngineOptions, EngineProfile, Fact
from prefixscope.engines.rules import whole_symbols
from prefixscope.errors import OptionError

__all__ = ["trace"]

FACTS = (
    Fact(
        "match rule",
        "one id is one block; the partly filled last id counts as a block and its tokens as tokens; the last prompt "
        "token may match; generated tokens store nothing",
        "Mooncake FAST25 trace: ids are chained over the prefix, ceil(input_length / 512) of them in every row",
        "conversation and synthetic traces",
        "function run",
    ),
)


def trace(version: str | None, options: EngineOptions) -> EngineProfile:
    """The trace's own arithmetic; its block size is the tokens per symbol of the log."""
    if version is not None:
        raise OptionError(f"--engine trace@{version}: profile trace has no versions")
    if options.block_size is not None and options.block_size != options.unit:
        raise OptionError(
            f"--block-size {options.block_size}: profile trace counts the log's own blocks of {options.unit} "
            "tokens; name an engine (--engine vllm) to ask for another size"
        )
    return EngineProfile(
        name="trace",
        version="",
        block_size=options.unit,
        match_unit=options.unit,
        rule=whole_symbols,
        stores_output=False,
        partial_reuse=True,
        recomputes_last_token=False,
        unhashed_first=False,
        accepted_block_sizes=(options.unit,),
        facts=FACTS,
        match_unit_why="one id of the log",
    )
