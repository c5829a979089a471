"""`replay`: a sample of the log on a live engine, predicted against measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from prefixscope.api.options import EngineChoice, LogOptions, Progress
from prefixscope.api.profiles import engine_options_of
from prefixscope.api.reading import ingest_options
from prefixscope.engines import EngineOptions
from prefixscope.errors import InputError, OptionError
from prefixscope.index.lineage import Lineage
from prefixscope.ingest import ingest
from prefixscope.ingest.sampled import sampled_prompts
from prefixscope.logs import FORMATS, LogFile, expand, is_index
from prefixscope.results import InputReport

if TYPE_CHECKING:
    from prefixscope.replay.item import ReplayItem
    from prefixscope.replay.options import ReplayOptions
    from prefixscope.replay.phases import Load
    from prefixscope.results.replay import Plan, ReplayReport, SampleReport

__all__ = ["PreparedReplay", "ReplayChoice", "prepare_replay", "run_replay"]

ANY_NAME = "*"


@dataclass(frozen=True, slots=True)
class ReplayChoice:
    """What the command `replay` takes beyond the shared options.

    `served`: NAME=SERVED pairs, the endpoint's name for a model of the log (`*=SERVED` for all others). `key_variable`
    names the environment variable that holds the API key. Loads are phases of their own: so many requests at a time, so
    many per second, or the log's own timing so many times faster.
    """

    endpoint: str
    sample: int = 200
    seed: int = 0
    served: tuple[str, ...] = ()
    phases: tuple[str, ...] = ("cold", "serial", "warm", "load")
    concurrencies: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    speed_ups: tuple[float, ...] = ()
    switch_models: tuple[str, ...] = ()
    send_as: Literal["ids", "body"] | None = None
    isolation: str = "auto"
    usable_blocks: int | None = None
    max_output_tokens: int = 1
    answer_tokens: int = 48
    timeout_s: float | None = None
    call_rate: float | None = None
    run_file: str | None = None
    resume: bool = False
    validate: bool = False
    key_variable: str | None = None
    ca_file: str | None = None
    engine: EngineChoice = field(default_factory=EngineChoice)


@dataclass(frozen=True, slots=True)
class PreparedReplay:
    """A sample, ready to be sent, and what sending it would cost at most. Nothing was sent yet."""

    items: tuple[ReplayItem, ...]
    sample: SampleReport
    plan: Plan
    options: ReplayOptions
    input: InputReport


def prepare_replay(log: LogOptions, choice: ReplayChoice, progress: Progress) -> PreparedReplay:
    """Reads the log, chooses whole prefix families, and makes exactly the prompts that would be sent."""
    from prefixscope.replay import plan_of, sample_of
    from prefixscope.replay.item import replay_item

    files = _no_index(expand(log.logs, FORMATS))
    if any(file.path == "-" for file in files):
        raise InputError("a replay reads its log twice, and standard input can be read only once; write it to a file")
    asked = ingest_options(log, choice.engine)
    ingested = ingest(files, asked, lambda done: progress("reading", done, log.limit))
    lineage = ingested.lineage
    pool = _one_pool(lineage)
    engine_options = engine_options_of(lineage, pool, choice.engine)
    unit = engine_options.match_unit or engine_options.block_size or 16
    sample = sample_of(lineage, choice.sample, unit, choice.seed)
    prompts = sampled_prompts(
        files, asked, lineage, sample.rows, lambda done: progress("making the sample's prompts", done, log.limit)
    )
    served = _served(choice.served)
    items = []
    for row in sample.rows:
        request, prompt = prompts[row]
        item = replay_item(row, request, prompt, _served_name(served, request.model))
        if item is not None:
            items.append(item)
    if not items:
        raise InputError("nothing of this log can be sent: hash ids and lengths are no prompts")
    options = _replay_options(choice, engine_options)
    return PreparedReplay(tuple(items), sample.report, plan_of(items, options), options, ingested.report)


def run_replay(prepared: PreparedReplay, progress: Progress) -> ReplayReport:
    """Sends the sample and compares. Ctrl-C ends it with a report of what was measured."""
    from prefixscope.replay import replay

    return replay(prepared.items, prepared.options, progress=progress)


def _no_index(files: Sequence[LogFile]) -> Sequence[LogFile]:
    for file in files:
        if file.format is None and is_index(file.path):
            raise InputError("an index holds no prompts, so nothing can be sent; name the log itself", file=file.path)
    return files


def _one_pool(lineage: Lineage) -> str:
    if len(lineage.pools) > 1:
        named = ", ".join(name or "(no model)" for name in lineage.pools)
        raise OptionError(
            f"the log holds requests for {len(lineage.pools)} base models ({named}) and an endpoint serves one: "
            "write the requests of one of them to a log of their own"
        )
    return lineage.pools[0]


def _served(pairs: Sequence[str]) -> Mapping[str, str]:
    served: dict[str, str] = {}
    for pair in pairs:
        name, equals, there = pair.partition("=")
        if not equals or not name or not there:
            raise OptionError(f"--served {pair}: write NAME=SERVED, the log's name and the endpoint's, or *=SERVED")
        served[name] = there
    return served


def _served_name(served: Mapping[str, str], logged: str | None) -> str:
    found = served.get(logged or "") or served.get(ANY_NAME) or logged
    if not found:
        raise OptionError("the log names no model: say how the endpoint calls it with --served '*=SERVED'")
    return found


def _loads(choice: ReplayChoice) -> tuple[Load, ...]:
    from prefixscope.replay.phases import Load

    loads = [Load("concurrency", number) for number in choice.concurrencies]
    loads += [Load("rate", number) for number in choice.rates]
    loads += [Load("log_timing", number) for number in choice.speed_ups]
    return tuple(loads) or (Load("concurrency", 8),)


def _replay_options(choice: ReplayChoice, engine_options: EngineOptions) -> ReplayOptions:
    from prefixscope.replay import ReplayOptions
    from prefixscope.replay.connection import ClientLimits
    from prefixscope.results.replay import IsolationMethod

    methods: tuple[IsolationMethod | Literal["auto"], ...] = ("auto", *get_args(IsolationMethod))
    method = next((known for known in methods if known == choice.isolation), None)
    if method is None:
        raise OptionError(f"--isolation {choice.isolation}: choose from {', '.join(methods)}")
    limits = ClientLimits(rate=choice.call_rate)
    if choice.timeout_s is not None:
        limits = ClientLimits(rate=choice.call_rate, first_token_s=choice.timeout_s, stall_s=choice.timeout_s)
    return ReplayOptions(
        endpoint=choice.endpoint,
        engine=choice.engine.names[0] if choice.engine.names else None,
        engine_options=engine_options,
        usable_blocks=choice.usable_blocks,
        phases=choice.phases,
        loads=_loads(choice),
        switch_models=choice.switch_models,
        send_as=choice.send_as,
        isolation=method,
        max_output_tokens=choice.max_output_tokens,
        answer_tokens=choice.answer_tokens,
        limits=limits,
        run_file=choice.run_file,
        resume=choice.resume,
        seed=choice.seed,
        ca_file=choice.ca_file,
        validate=choice.validate,
        api_key=_key(choice.key_variable),
    )


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise OptionError(f"--api-key-variable {variable}: this environment variable is not set")
    return key
