"""The rung `in_flight`: what overlapping requests leave of a pool's reuse, from the times of the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from prefixscope.api.options import EngineChoice
from prefixscope.api.profiles import service_ns
from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import NO_TIME, Lineage
from prefixscope.reuse.in_flight import in_flight, missing_times
from prefixscope.reuse.pools import Pool, Restriction, Restrictions

__all__ = ["with_overlap"]

Restrict = Callable[[Pool], Restrictions]

_VISIBLE = {
    "scheduled": "a prompt can be found from the moment it is scheduled, in the same step too",
    "prefill_end": "a prompt can be found once its prefill has ended",
    "request_end": "a prompt can be found once its request has ended",
}


def with_overlap(choice: EngineChoice, others: Restrict | None) -> Restrict:
    """The restrictions of `others` and this rung; where the log's times do not tell, its reason."""

    def restrict(pool: Pool) -> Restrictions:
        found = Restrictions() if others is None else others(pool)
        mine = _overlap(pool, choice)
        after = [
            dataclasses.replace(rung, why=f"{rung.why}; never above what overlap leaves")
            if mine.cached_tokens is not None and rung.rung == "capacity"
            else rung
            for rung in found.rungs
        ]
        return dataclasses.replace(found, rungs=(mine, *after))

    return restrict


def _overlap(pool: Pool, choice: EngineChoice) -> Restriction:
    lineage, profile = pool.lineage, pool.profile
    said: Mapping[str, Any] = lineage.provenance.get("engine_settings", {}).get(pool.name, {})
    service = service_ns(choice, said)
    chunk = choice.max_batched_tokens or said.get("max_batched_tokens")
    chunk = chunk if profile.visible == "scheduled" else None
    reason = _not_told(lineage, pool, profile, service)
    found = None
    if reason is None:
        found = in_flight(lineage, profile, service_ns=service, max_batched_tokens=chunk, counted=pool.counted)
    if found is None:
        return Restriction("in_flight", None, f"not simulated: {reason}")
    return Restriction("in_flight", found.cached_tokens, _how(lineage, profile, service, chunk))


def _not_told(lineage: Lineage, pool: Pool, profile: EngineProfile, service: int | None) -> str | None:
    """Why the rung can't be simulated; only counted rows need the times that a profile asks for."""
    if profile.name == "trace":
        return "hashes alone follow no engine's timing (--engine NAME)"
    untimed = lineage.provenance.get("input", {}).get("missing_times", 0)
    if untimed:
        return f"{untimed:,} requests of the log without a time"
    return missing_times(lineage, profile, service, pool.counted)


def _how(lineage: Lineage, profile: EngineProfile, service: int | None, chunk: int | None) -> str:
    said = [_VISIBLE[profile.visible]]
    if profile.visible == "prefill_end" and (lineage.first_token_ns == NO_TIME).any():
        said.append("where no first token is logged, when the request ends")
    unended = int((lineage.finished_ns == NO_TIME).sum())
    if unended and service is not None:
        said.append(f"{unended:,} requests without an end last {service / 1e9:g} s")
    if chunk is not None:
        said.append(f"prefill in steps of {chunk:,} tokens")
    return "; ".join(said)
