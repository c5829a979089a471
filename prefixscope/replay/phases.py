"""The phases of a replay: what is sent, in which order, from which cold start.

cold           every request from its own cold start: nothing is cached (the reference for times and answers)
serial         one after another from one cold start: must be exact
warm           the same requests again on the warm cache
concurrency N, rate R/s, log timing xS   under load, from one cold start
switch         the same prompts under several models, adapters and salts: they must not see each other
answers        generate, then ask again with the returned ids: generated tokens are found
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prefixscope.errors import OptionError
from prefixscope.replay.isolation import Controls
from prefixscope.replay.item import ReplayItem, tokens_of
from prefixscope.replay.runner import Runner

__all__ = [
    "Load",
    "NotPossibleError",
    "answers",
    "cold",
    "serial",
    "switch",
    "switched_items",
    "under_load",
    "warm",
]

SWITCH_PROMPTS = 3
ANSWER_PROMPTS = 8


class NotPossibleError(Exception):
    """This endpoint can't do what the phase needs; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Load:
    """How requests are sent in phase (c): so many at once, so many per second, or as logged, so many times faster."""

    kind: Literal["concurrency", "rate", "log_timing"]
    amount: float

    def __post_init__(self) -> None:
        if not 0 < self.amount < math.inf or (self.kind == "concurrency" and self.amount != round(self.amount)):
            raise OptionError(f"{self.name}: write a number above 0, for a concurrency a whole one")

    @property
    def name(self) -> str:
        """The phase's name.

        >>> Load("concurrency", 8).name, Load("log_timing", 10).name
        ('concurrency 8', 'log timing x10')
        """
        words = {"concurrency": "concurrency {:g}", "rate": "rate {:g}/s", "log_timing": "log timing x{:g}"}
        return words[self.kind].format(self.amount)


def wanted_output(item: ReplayItem, most: int) -> int:
    """The logged answer's length, at most `most`, at least one token."""
    return max(1, min(most, item.output_tokens or most))


async def cold(runner: Runner, items: Sequence[ReplayItem], most_output: int) -> None:
    """Every item from its own cold start; those already in the run file are not sent again."""
    done = {record.row for record in runner.bench.run_file.calls.get("cold", ())}
    for item in items:
        if item.row not in done:
            await runner.cold_start()
            await runner.send(item, output_tokens=wanted_output(item, most_output), logprobs=True)


async def serial(runner: Runner, items: Sequence[ReplayItem], most_output: int) -> None:
    """From one cold start, one after another."""
    await runner.cold_start(items[0].prompt_tokens)
    await warm(runner, items, most_output)


async def warm(runner: Runner, items: Sequence[ReplayItem], most_output: int) -> None:
    """One after another, without a cold start."""
    for item in items:
        await runner.send(item, output_tokens=wanted_output(item, most_output), logprobs=True)


async def under_load(runner: Runner, items: Sequence[ReplayItem], load: Load, most_output: int) -> None:
    """From one cold start, several at a time."""
    await runner.cold_start(items[0].prompt_tokens)
    if load.kind == "concurrency":
        await _together(_workers(runner, items, round(load.amount), most_output))
        return
    begun = time.perf_counter()
    tasks: list[asyncio.Task[Any]] = []
    try:
        for item, due_s in zip(items, _due(items, load, begun), strict=True):
            await asyncio.sleep(due_s - time.perf_counter())
            sending = runner.send(item, due_s=due_s, output_tokens=wanted_output(item, most_output))
            tasks.append(asyncio.create_task(sending))
        await asyncio.gather(*tasks)
    finally:
        await _cancelled(tasks)


def _due(items: Sequence[ReplayItem], load: Load, begun: float) -> list[float]:
    if load.kind == "rate":
        return [begun + at / load.amount for at in range(len(items))]
    times = [item.time_ns for item in items]
    if any(at is None for at in times):
        raise OptionError("log timing: the log has requests without a time; use a rate or a concurrency")
    first = min(at for at in times if at is not None)
    return [begun + ((at or 0) - first) / 1e9 / load.amount for at in times]


def _workers(
    runner: Runner, items: Sequence[ReplayItem], count: int, most_output: int
) -> list[Coroutine[Any, Any, None]]:
    queue = iter(items)

    async def work() -> None:
        for item in queue:
            await runner.send(item, output_tokens=wanted_output(item, most_output))

    return [work() for _ in range(count)]


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancelled(tasks)


async def _cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def switched_items(
    items: Sequence[ReplayItem], models: Sequence[str], unit: int, *, salts: bool
) -> list[list[ReplayItem]]:
    """A few prompts long enough to be found again, each under every model and (if the engine has salts) two salts."""
    long = sorted(items, key=lambda item: item.prompt_tokens, reverse=True)
    picked = [item for item in long if item.prompt_tokens > 2 * unit][:SWITCH_PROMPTS]
    groups = []
    for item in picked:
        plain = dataclasses.replace(item, kind="tokens", body={})
        group = [_as_model(plain, model) for model in models]
        if salts:
            group += [_salted(plain, name) for name in ("one", "other")]
        groups.append(group)
    return groups if any(len(group) > 1 for group in groups) else []


def _as_model(item: ReplayItem, model: str) -> ReplayItem:
    return dataclasses.replace(item, model=model)


def _salted(item: ReplayItem, salt: str) -> ReplayItem:
    return dataclasses.replace(item, body={"cache_salt": f"switch-{salt}"})


async def switch(runner: Runner, groups: Sequence[Sequence[ReplayItem]]) -> None:
    """Each prompt under each identity in turn, and once more: the first round reads nothing, the second everything."""
    await runner.cold_start(groups[0][0].prompt_tokens)
    for group in groups:
        for _ in range(2):
            for item in group:
                await runner.send(item)


async def answers(
    runner: Runner, items: Sequence[ReplayItem], controls: Controls, output_tokens: int, unit: int
) -> None:
    """Generates, then sends prompt + returned ids + new ones; NotPossibleError where no ids are returned."""
    await runner.cold_start(items[0].prompt_tokens)
    for item in items[:ANSWER_PROMPTS]:
        first = dataclasses.replace(item, kind="tokens")
        record = await runner.send(first, output_tokens=output_tokens)
        returned = record.outcome.reading.output_ids
        if record.outcome.state == "done" and returned is None:
            raise NotPossibleError("answers: the endpoint does not return the ids it generated")
        tokens = item.tokens + tokens_of(returned or ()) + controls.tokens(unit + 1)
        await runner.send(dataclasses.replace(first, tokens=tokens))
