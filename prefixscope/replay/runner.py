"""Sends calls to the endpoint, remembers what it got since the last cold start, and predicts exactly that."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from prefixscope.engines.profile import EngineProfile
from prefixscope.replay.calls import Call, Scope, SendAs, build_call
from prefixscope.replay.compare import check_prompt
from prefixscope.replay.connection import Outcome
from prefixscope.replay.isolation import Controls, Isolation
from prefixscope.replay.item import ReplayItem, SentRow, ids_of, tokens_of
from prefixscope.replay.meter import Counted, Meter
from prefixscope.replay.predict import Order, Prediction, predict
from prefixscope.replay.runfile import CallRecord, PhaseRecord, RunFile

__all__ = ["Bench", "Progress", "Runner"]

Progress = Callable[[str, int, int | None], None]
"""Called with (phase, calls done, calls in all or None)."""

STORED = {"done": True, "cut": True, "refused": False, "unknown": None}
LAG_TICK_S = 0.02


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything a run needs: whom to ask, how, under which rules, with what memory (None: not told, endless).

    `weights` tells which names of the endpoint serve the same weights.
    """

    meter: Meter
    engine: str | None
    profile: EngineProfile
    usable_blocks: int | None
    isolation: Isolation
    controls: Controls
    send_as: SendAs
    run_file: RunFile
    weights: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Sent:
    epoch: int
    position: int


class Runner:
    """Runs one phase after another. An epoch is what was sent since a cold start; predictions are made per epoch."""

    def __init__(self, bench: Bench, progress: Progress | None = None) -> None:
        self.bench = bench
        self._progress = progress or (lambda *_: None)
        self._calls: int | None = None
        self.failed_controls: dict[str, str] = {}
        self._scope = Scope()
        self._epochs: list[list[SentRow]] = [[]]
        self._records: list[tuple[CallRecord, _Sent]] = []
        self._phase = ""
        self._alone = True
        self._counted: list[tuple[int, int | None]] = []

    async def cold_start(self, control_tokens: int | None = None) -> None:
        """Makes the endpoint forget; then a control prompt of so many tokens must read nothing."""
        self._scope = await self.bench.isolation.cold_start()
        self._epochs.append([])
        if control_tokens is None or self.bench.isolation.method == "none":
            return
        item = self.bench.controls.item(control_tokens)
        send_as: SendAs = "ids" if item.kind == "tokens" else "body"
        call = build_call(item, self._scope, engine=self.bench.engine, send_as=send_as)
        outcome = await self.bench.meter.alone(call)
        self._note(call, outcome)
        if outcome.reading.cached_tokens:
            self.failed_controls[self._phase] = (
                f"a control prompt never sent before read {outcome.reading.cached_tokens} cached tokens"
            )

    async def send(
        self, item: ReplayItem, *, due_s: float | None = None, output_tokens: int = 1, logprobs: bool = False
    ) -> CallRecord:
        """Sends one item in the current scope, keeps the record on disk, and gives the record with the returned ids."""
        bench = self.bench
        call = build_call(
            item,
            self._scope,
            engine=bench.engine,
            send_as=bench.send_as,
            output_tokens=output_tokens,
            logprobs=logprobs,
            weights=bench.weights,
        )
        try:
            outcome = await (bench.meter.alone if self._alone else bench.meter.client.generate)(call)
        except asyncio.CancelledError:
            self._note(call, None)
            raise
        sent = self._note(call, outcome)
        theirs = outcome.reading.prompt_ids
        record = CallRecord(
            phase=self._phase,
            row=item.row,
            model=item.model,
            prompt_tokens=call.prompt_tokens,
            due_s=due_s,
            outcome=dataclasses.replace(outcome, reading=_without_prompt(outcome)),
            prompt_check=None if theirs is None else check_prompt(ids_of(call.tokens), theirs),
        )
        self._records.append((record, sent))
        bench.run_file.add_call(record)
        await asyncio.shield(asyncio.to_thread(bench.run_file.sync))
        self._progress(self._phase, len(self._records), self._calls)
        return record

    def _note(self, call: Call, outcome: Outcome | None) -> _Sent:
        epoch = self._epochs[-1]
        epoch.append(_sent_row(call, outcome))
        if outcome is not None and outcome.state == "done":
            told = outcome.reading.prompt_tokens
            self._counted.append((call.prompt_tokens if told is None else told, outcome.reading.cached_tokens))
        elif outcome is None or outcome.state != "refused":
            self._counted.append((0, None))
        return _Sent(len(self._epochs) - 1, len(epoch) - 1)

    async def phase(
        self, name: str, work: Coroutine[Any, Any, None], order: Order = "serial", calls: int | None = None
    ) -> None:
        """Runs `work` as a phase of so many `calls`; its record is kept also when it is cut off."""
        self._calls = calls
        self._progress(name, 0, calls)
        self._phase, self._records, self._counted = name, [], []
        self._alone = order == "serial"
        before = await self.bench.meter.counted()
        begun = time.perf_counter()
        lag = _LoopLag()
        finished = False
        try:
            async with lag:
                await work
            finished = True
        finally:
            duration = time.perf_counter() - begun
            due = sum(tokens for tokens, _ in self._counted)
            grown = await self.bench.meter.grown(before, due) if finished else None
            self._close(name, order, lag.longest_s, duration, grown, finished)

    def _close(
        self, name: str, order: Order, lag_s: float, duration_s: float, grown: Counted | None, finished: bool
    ) -> None:
        predicted, cache, why = self._predictions(order)
        known = all(cached is not None for _, cached in self._counted)
        record = PhaseRecord(
            phase=name,
            predicted=predicted,
            cache=cache,
            order=order,
            why_unknown=why,
            loop_lag_s=lag_s,
            duration_s=duration_s,
            counter_prompt_tokens=None if grown is None else grown.prompt_tokens,
            counter_cached_tokens=None if grown is None else grown.cached_tokens,
            expected_counter_prompt_tokens=sum(tokens for tokens, _ in self._counted) if known else None,
            measured_cached_with_controls=sum(cached or 0 for _, cached in self._counted) if known else None,
            finished=finished,
        )
        self.bench.run_file.add_phase(record)

    def _predictions(self, order: Order) -> tuple[tuple[int | None, ...], str, str]:
        """One prediction per record of this phase, each within its own epoch."""
        made: dict[int, Prediction] = {}
        for _, sent in self._records:
            if sent.epoch not in made:
                rows = self._epochs[sent.epoch]
                made[sent.epoch] = predict(rows, self.bench.profile, self.bench.usable_blocks, order)
        predicted = tuple(made[sent.epoch].cached_tokens[sent.position] for _, sent in self._records)
        caches = {prediction.cache for prediction in made.values()}
        limited = next((cache for cache in caches if cache != "infinite"), "infinite")
        whys = [prediction.why_unknown for prediction in made.values()]
        return predicted, limited, whys[0] if whys else ""


def _sent_row(call: Call, outcome: Outcome | None) -> SentRow:
    if outcome is None:
        return SentRow(call.namespace, call.tokens, call.prompt_tokens, call.prompt_tokens, None)
    reading = outcome.reading
    ids = reading.output_ids or ()
    generated = reading.output_tokens or len(ids)
    return SentRow(
        namespace=call.namespace,
        tokens=call.tokens + tokens_of(ids[:-1]),
        prompt_tokens=call.prompt_tokens,
        sequence_tokens=call.prompt_tokens + max(generated - 1, 0),
        stored=STORED[outcome.state],
        sent_s=outcome.sent_s,
        accepted_s=outcome.accepted_s,
        first_token_s=outcome.first_token_s,
        finished_s=outcome.finished_s,
    )


def _without_prompt(outcome: Outcome) -> Any:
    """The reading as it may be kept: no prompt, and the answer's text only where its ids are not known."""
    reading = outcome.reading
    return dataclasses.replace(reading, prompt_ids=None, text="" if reading.output_ids is not None else reading.text)


class _LoopLag:
    """How long the event loop was held up at worst: what this client may have added to any time it measured."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            asleep = time.perf_counter()
            await asyncio.sleep(LAG_TICK_S)
            self.longest_s = max(self.longest_s, time.perf_counter() - asleep - LAG_TICK_S)
