"""Cold starts: making an endpoint forget, or making it unable to recognise what it saw before, and proving it.

In order of preference: the reset endpoint (nothing else is changed), a fresh `cache_salt` or `extra_key` for every
cold start (the prompts stay, the memory stays full of older blocks, which a least-recently-used pool gives up first),
a unique first block of token ids (this changes the prompts). Control prompts prove each way before it is used.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from typing import Literal

from prefixscope.errors import EndpointError
from prefixscope.replay.calls import Scope, build_call
from prefixscope.replay.item import ReplayItem, ids_of, tokens_of
from prefixscope.replay.meter import Meter
from prefixscope.results.replay import ControlReading, EndpointFacts, IsolationMethod, IsolationReport

__all__ = ["METHODS", "Controls", "Isolation", "NoResetError", "choose_isolation", "first_block_tokens"]

METHODS: tuple[IsolationMethod, ...] = ("reset", "salt", "extra_key", "first_block")
RESET_PAGES = {"vllm": "/reset_prefix_cache", "vllm-ascend": "/reset_prefix_cache", "sglang": "/flush_cache"}
RESET_ATTEMPTS = 10
RESET_PAUSE_S = 0.3
SHORTEST_CONTROL = 64
SHORTEST_FIRST_BLOCK = 8
CONTROL_ROW = -1


def first_block_tokens(unit: int) -> int:
    """Length of a unique first block: whole units, long enough not to come up again in another run by chance.

    >>> first_block_tokens(1), first_block_tokens(16)
    (8, 16)
    """
    return -(-SHORTEST_FIRST_BLOCK // unit) * unit


class NoResetError(Exception):
    """The endpoint has no reset page, or did not reset."""


class Controls:
    """Makes prompts that share no prefix with the sample, with each other, or with those of another `run`.

    `run` must be new for every run: the same controls on a server that is still warm would be found again.
    """

    def __init__(self, items: Sequence[ReplayItem], unit: int, *, as_ids: bool, run: str) -> None:
        self._random = random.Random(f"control {run}")
        known = {token for item in items for token in ids_of(item.tokens)}
        self._vocabulary = sorted(known if len(known) >= SHORTEST_CONTROL else known | set(range(256)))
        self._firsts = {item.tokens[:4] for item in items}
        self._model = items[0].model
        self._as_ids = as_ids
        self.shortest = max(3 * unit + 1, SHORTEST_CONTROL)

    def tokens(self, count: int) -> bytes:
        """Random ids of the sample's own vocabulary; the first one begins no other prompt, as far as there are any."""
        free = [token for token in self._vocabulary if tokens_of([token]) not in self._firsts]
        first = self._random.choice(free or self._vocabulary)
        self._firsts.add(tokens_of([first]))
        return tokens_of([first, *self._random.choices(self._vocabulary, k=count - 1)])

    def item(self, count: int, model: str | None = None) -> ReplayItem:
        """A control prompt of `count` tokens (or, where only messages are taken, of so many words)."""
        name = model or self._model
        tokens = self.tokens(count)
        if self._as_ids:
            return ReplayItem(CONTROL_ROW, "tokens", {}, tokens, name)
        words = " ".join(f"{self._random.randrange(16**6):06x}" for _ in range(count))
        body = {"messages": [{"role": "user", "content": words}]}
        return ReplayItem(CONTROL_ROW, "chat", body, tokens, name)


class Isolation:
    """One way of making cold starts. Every `cold_start` gives the scope that the following calls are sent in."""

    def __init__(
        self, meter: Meter, engine: str | None, method: IsolationMethod, controls: Controls, unit: int, run: str
    ) -> None:
        self.meter, self.engine, self.method = meter, engine, method
        self._controls, self._unit, self._run = controls, unit, run
        self._starts = 0

    async def cold_start(self) -> Scope:
        """From here on nothing sent earlier is found. NoResetError where the endpoint does not reset."""
        self._starts += 1
        name = f"prefixscope-{self._run}-{self._starts}"
        if self.method == "reset":
            await self._reset()
        elif self.method == "salt":
            return Scope(salt=name)
        elif self.method == "extra_key":
            return Scope(extra_key=name)
        elif self.method == "first_block":
            blocks: dict[bytes, bytes] = {}

            def first_block(prompt: bytes) -> bytes:
                if prompt[:4] not in blocks:
                    blocks[prompt[:4]] = self._controls.tokens(first_block_tokens(self._unit))
                return blocks[prompt[:4]]

            return Scope(first_block=first_block)
        return Scope()

    async def _reset(self) -> None:
        page = RESET_PAGES.get(self.engine or "")
        if page is None:
            raise NoResetError("no reset endpoint is known for this engine")
        said = ""
        for _ in range(RESET_ATTEMPTS):
            status, text = await self.meter.client.post(self.meter.client.address.root + page)
            if status == 404:
                hint = " (vLLM has it with VLLM_SERVER_DEV_MODE=1)" if page == "/reset_prefix_cache" else ""
                raise NoResetError(f"{page} does not exist{hint}")
            if status == 200 and _success(text):
                return
            said = f"{page} answered {status} {' '.join(text.split())[:80]}"
            await asyncio.sleep(RESET_PAUSE_S)
        raise NoResetError(f"{said}, {RESET_ATTEMPTS} times: is something else using the endpoint?")


def _success(text: str) -> bool:
    """vLLM answers 200 also when it did not reset; older versions and SGLang answer without JSON when they did.

    >>> _success('{"success":false}'), _success('{"success":true}'), _success("Cache flushed.")
    (False, True, True)
    """
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return True
    return bool(answer.get("success", True)) if isinstance(answer, Mapping) else True


async def choose_isolation(
    meter: Meter,
    facts: EndpointFacts,
    engine: str | None,
    controls: Controls,
    unit: int,
    run: str,
    wanted: IsolationMethod | Literal["auto"] = "auto",
    prompts_may_change: bool = True,
) -> tuple[Isolation, IsolationReport]:
    """The first way that the control prompts prove; if none does, `none`, and the report says what was seen."""
    tried: list[str] = []
    readings: tuple[ControlReading, ...] = ()
    if wanted != "none":
        for method in METHODS if wanted == "auto" else (wanted,):
            if method == "first_block" and not (facts.accepts_ids and prompts_may_change):
                tried.append("first_block: prompts are not sent as token ids, so nothing can be put before them")
                continue
            isolation = Isolation(meter, engine, method, controls, unit, run)
            try:
                readings = await _prove(isolation, controls, as_ids=facts.accepts_ids)
            except NoResetError as error:
                tried.append(f"{method}: {error}")
                continue
            if all(reading.passed for reading in readings):
                return isolation, IsolationReport(method, method == "first_block", True, readings, tuple(tried))
            tried.append(f"{method}: {_failed(readings)}")
            if not _isolation_is_to_blame(readings):
                break
    nothing = Isolation(meter, engine, "none", controls, unit, run)
    return nothing, IsolationReport("none", False, False, readings, tuple(tried))


async def _prove(isolation: Isolation, controls: Controls, *, as_ids: bool) -> tuple[ControlReading, ...]:
    again, other = controls.item(controls.shortest), controls.item(controls.shortest)
    first = await isolation.cold_start()
    # Whether answers tell their cached tokens at all; if not, the meter reads counters from the next call on.
    await _ask(isolation, controls.item(controls.shortest), first, "", "zero", as_ids=as_ids)
    asked: list[tuple[ReplayItem, Scope, str, Literal["zero", "more_than_zero"]]] = [
        (again, first, "a prompt never sent before", "zero"),
        (again, first, "the same prompt again", "more_than_zero"),
    ]
    readings = [await _ask(isolation, *question, as_ids=as_ids) for question in asked]
    second = await isolation.cold_start()
    readings.append(await _ask(isolation, again, second, "the same prompt after a cold start", "zero", as_ids=as_ids))
    readings.append(await _ask(isolation, other, second, "another prompt of the same length", "zero", as_ids=as_ids))
    return tuple(readings)


async def _ask(
    isolation: Isolation,
    item: ReplayItem,
    scope: Scope,
    what: str,
    must_be: Literal["zero", "more_than_zero"],
    *,
    as_ids: bool,
) -> ControlReading:
    call = build_call(item, scope, engine=isolation.engine, send_as="ids" if as_ids else "body")
    outcome = await isolation.meter.alone(call)
    if outcome.state != "done":
        raise EndpointError(f"a control prompt failed ({outcome.error}): nothing was measured")
    told = outcome.reading.prompt_tokens
    return ControlReading(what, call.prompt_tokens if told is None else told, must_be, outcome.reading.cached_tokens)


def _isolation_is_to_blame(readings: Sequence[ControlReading]) -> bool:
    """Only the third reading failed: the cache works and its metric as well, but the cold start was none."""
    return [reading.passed for reading in readings] == [True, True, False, True]


def _failed(readings: Sequence[ControlReading]) -> str:
    wanted = {"zero": "0", "more_than_zero": "more than 0"}
    wrong = next(reading for reading in readings if not reading.passed)
    if wrong.measured is None:
        return "the endpoint does not tell cached tokens"
    return f"{wrong.what} read {wrong.measured} cached tokens where {wanted[wrong.must_be]} was due"
