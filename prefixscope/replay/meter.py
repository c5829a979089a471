"""Cached tokens of calls that do not tell them: the growth of the engine's own counters, when nobody else uses it.

Works for one call at a time only, and only where the counted prompt tokens are exactly those of the call: anything else
means that the endpoint served somebody else meanwhile, and then the reading stays unknown.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time

from prefixscope.errors import EndpointError
from prefixscope.replay.calls import Call
from prefixscope.replay.client import Client
from prefixscope.replay.connection import Outcome
from prefixscope.reuse.measured import COUNTER_PAIRS, counters_of

__all__ = ["COUNTED", "Counted", "Meter"]

COUNTED = "counters before and after"
"""The `cached_source` of a reading that was taken from counters."""

SETTLE_S = 2.0
PAUSE_S = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Counted:
    """What an engine's counters say, in tokens: looked up or computed prompts, and those found in the cache."""

    prompt_tokens: int
    cached_tokens: int


class Meter:
    """Sends calls, and reads counters where an answer alone says nothing."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.by_counters = False
        """Whether calls sent alone are measured by counters, because an answer did not tell its cached tokens."""

    async def alone(self, call: Call) -> Outcome:
        """Sends one call while nothing else is sent; cached tokens by the counters where the answer has none."""
        before = await self.counted() if self.by_counters else None
        outcome = await self.client.generate(call)
        if outcome.state != "done" or outcome.reading.cached_tokens is not None:
            return outcome
        if not self.by_counters:
            self.by_counters = True  # from the next call on: this one has no reading of before
            return outcome
        told = outcome.reading.prompt_tokens or call.prompt_tokens
        grown = await self.grown(before, told)
        if grown is None or grown.prompt_tokens != told:
            return outcome
        reading = dataclasses.replace(outcome.reading, cached_tokens=grown.cached_tokens, cached_source=COUNTED)
        return dataclasses.replace(outcome, reading=reading)

    async def counted(self) -> Counted | None:
        """The counters now; None where there are none."""
        try:
            status, text = await self.client.get(self.client.address.root + "/metrics")
        except EndpointError:
            return None
        values = counters_of(text) if status == 200 else {}
        for queries, hits in COUNTER_PAIRS.values():
            if queries in values and hits in values:
                cached = round(values[hits])
                # llama.cpp counts only what it computed as prompt tokens
                return Counted(round(values[queries]) + (cached if hits.startswith("llamacpp") else 0), cached)
        return None

    async def grown(self, before: Counted | None, due: int) -> Counted | None:
        """How much the counters grew. Engines write them a moment after the answer: `due` prompt tokens are awaited."""
        until = time.perf_counter() + SETTLE_S
        while before is not None:
            after = await self.counted()
            if after is None:
                return None
            prompt_tokens = after.prompt_tokens - before.prompt_tokens
            if prompt_tokens >= due or time.perf_counter() > until:
                return Counted(prompt_tokens, after.cached_tokens - before.cached_tokens)
            await asyncio.sleep(PAUSE_S)
        return None
