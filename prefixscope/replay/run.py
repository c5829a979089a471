"""One replay from end to end: ask the endpoint, prove a cold start, run the phases, compare, fit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from prefixscope.errors import EndpointError, OptionError
from prefixscope.replay import phases
from prefixscope.replay.calls import SALTED
from prefixscope.replay.client import Client
from prefixscope.replay.compare import prompt_report_of
from prefixscope.replay.connection import Address
from prefixscope.replay.detect import ask, check_rendering, profile_of
from prefixscope.replay.endpoint import as_engine
from prefixscope.replay.isolation import Controls, choose_isolation
from prefixscope.replay.item import ReplayItem
from prefixscope.replay.meter import Meter
from prefixscope.replay.options import ReplayOptions, plan_of, settings_of
from prefixscope.replay.runfile import RunFile
from prefixscope.replay.runner import Bench, Progress, Runner
from prefixscope.replay.summary import Seen, report_of
from prefixscope.replay.transport import network_transport
from prefixscope.results.replay import EndpointFacts, IsolationReport, PromptReport, ReplayReport

__all__ = ["replay", "replay_async"]


def replay(
    items: Sequence[ReplayItem],
    options: ReplayOptions,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    progress: Progress | None = None,
) -> ReplayReport:
    """Runs a replay and reports. Interrupted with Ctrl-C, it reports what was measured until then (`interrupted`)."""
    return asyncio.run(replay_async(items, options, transport=transport, progress=progress))


async def replay_async(
    items: Sequence[ReplayItem],
    options: ReplayOptions,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    progress: Progress | None = None,
) -> ReplayReport:
    """As `replay`, within a running event loop. The first cancellation ends the run with a report."""
    if not items:
        raise OptionError("nothing to replay: the sample is empty")
    client = Client(
        Address.of(options.endpoint),
        transport or network_transport(options.ca_file),
        options.limits,
        options.api_key,
        options.seed,
    )
    run_file = RunFile(options.run_file, settings_of(items, options), resume=options.resume)
    try:
        return await _run(client, run_file, items, options, progress)
    finally:
        run_file.close()
        await client.close()


@dataclass(frozen=True, slots=True)
class _Setup:
    facts: EndpointFacts
    assumed: tuple[str, ...]
    proof: IsolationReport
    bench: Bench


async def _set_up(client: Client, run_file: RunFile, items: Sequence[ReplayItem], options: ReplayOptions) -> _Setup:
    """Asks the endpoint what it is, picks the rules, and proves a cold start."""
    facts = await ask(client)
    _refuse_unknown_models(facts, items, options)
    profile, assumed = profile_of(facts, options.engine, options.engine_options)
    engine = profile.name if facts.engine is None or options.engine else facts.engine
    facts = as_engine(facts, engine, ids=options.send_as == "ids")
    as_ids = options.send_as or ("ids" if facts.accepts_ids else "body")
    run = f"{random.SystemRandom().randrange(16**12):012x}"
    controls = Controls(items, profile.match_unit, as_ids=facts.accepts_ids, run=run)
    meter = Meter(client)
    isolation, proof = await choose_isolation(
        meter,
        facts,
        engine,
        controls,
        profile.match_unit,
        run,
        options.isolation,
        prompts_may_change=as_ids == "ids",
    )
    blocks = options.usable_blocks if options.usable_blocks is not None else facts.usable_blocks
    if options.validate and not proof.proven:
        raise EndpointError(f"--validate needs a proven cold start, and there is none: {'; '.join(proof.tried)}")
    return _Setup(
        facts,
        assumed,
        proof,
        Bench(meter, engine, profile, blocks, isolation, controls, as_ids, run_file, dict(facts.weights)),
    )


async def _run(
    client: Client, run_file: RunFile, items: Sequence[ReplayItem], options: ReplayOptions, progress: Progress | None
) -> ReplayReport:
    setup = await _set_up(client, run_file, items, options)
    facts, proof, runner = setup.facts, setup.proof, Runner(setup.bench, progress)
    warnings: list[str] = []
    prompts = prompt_report_of([])
    interrupted = False
    try:
        prompts = await _rendering(client, facts, items)
        await _phases(runner, facts, proof, items, options, warnings)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.uncancel() > 0:
            raise
        interrupted = True
    except EndpointError as error:
        if not run_file.calls:
            raise
        warnings.append(f"the run ended early: {error}")
        interrupted = True
    return report_of(
        Seen(
            plan=plan_of(items, options),
            endpoint=facts,
            profile=setup.bench.profile,
            assumed=setup.assumed,
            isolation=proof,
            run_file=run_file,
            prompts=prompts,
            failed_controls=runner.failed_controls,
            warnings=tuple(warnings),
            interrupted=interrupted,
            tolerance=options.logprob_tolerance,
        )
    )


def _refuse_unknown_models(facts: EndpointFacts, items: Sequence[ReplayItem], options: ReplayOptions) -> None:
    wanted = dict.fromkeys([*(item.model for item in items), *options.switch_models])
    missing = [model for model in wanted if model not in facts.models]
    if missing:
        raise EndpointError(
            f"{facts.url} does not serve {', '.join(map(repr, missing))} (it serves {', '.join(facts.models)})"
        )


async def _rendering(client: Client, facts: EndpointFacts, items: Sequence[ReplayItem]) -> PromptReport:
    if facts.can_tokenize:
        return prompt_report_of(await check_rendering(client, items))
    return prompt_report_of([(item.row, None) for item in items if item.kind != "tokens"])


async def _phases(
    runner: Runner,
    facts: EndpointFacts,
    proof: IsolationReport,
    items: Sequence[ReplayItem],
    options: ReplayOptions,
    warnings: list[str],
) -> None:
    run_file, asked, most = runner.bench.run_file, options.phases, options.max_output_tokens
    if "cold" in asked and proof.method == "none":
        warnings.append("phase cold was not run: there is no cold start on this endpoint")
    elif "cold" in asked and not _finished(run_file, ["cold"]):
        await runner.phase("cold", phases.cold(runner, items, most), calls=len(items))
    if "serial" in asked:
        names = ["serial", "warm"] if "warm" in asked else ["serial"]
        if not _finished(run_file, names):
            run_file.begin(names)
            for name, work in (("serial", phases.serial), ("warm", phases.warm)):
                if name in names:
                    await runner.phase(name, work(runner, items, most), calls=len(items))
    for load in options.loads if "load" in asked else ():
        if not _finished(run_file, [load.name]):
            run_file.begin([load.name])
            await runner.phase(load.name, phases.under_load(runner, items, load, most), "admission", len(items))
    await _identity_phases(runner, facts, items, options, warnings)


async def _identity_phases(
    runner: Runner,
    facts: EndpointFacts,
    items: Sequence[ReplayItem],
    options: ReplayOptions,
    warnings: list[str],
) -> None:
    """Phases that make their own prompts, so they need an endpoint that takes token ids."""
    bench = runner.bench
    for name in ("switch", "answers"):
        if name not in options.phases or _finished(bench.run_file, [name]):
            continue
        if not facts.accepts_ids:
            warnings.append(f"phase {name} was not run: the endpoint takes no token ids")
            continue
        bench.run_file.begin([name])
        unit = bench.profile.match_unit
        if name == "answers":
            work = phases.answers(runner, items, bench.controls, options.answer_tokens, unit)
            try:
                await runner.phase(name, work)
            except phases.NotPossibleError as error:
                bench.run_file.begin([name])
                warnings.append(f"phase {error}")
            continue
        models = list(dict.fromkeys([*(item.model for item in items), *options.switch_models]))
        groups = phases.switched_items(items, models, unit, salts=bench.engine in SALTED)
        if not groups:
            warnings.append(
                "phase switch was not run: no prompt is longer than two units, or there is one identity only"
            )
            continue
        await runner.phase(name, phases.switch(runner, groups))


def _finished(run_file: RunFile, names: Sequence[str]) -> bool:
    return all(name in run_file.phases and run_file.phases[name].finished for name in names)
