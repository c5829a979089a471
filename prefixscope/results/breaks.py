"""What comes out of `explain` and `lint`: plain frozen data. None means unknown, which is never zero.

Token counts of faults are per-request sums over counted requests. Every request has one cause, so the losses of
different faults add up to what the first difference of each request cost; removing one fault can uncover another, so
what really is gained is only told by a what-if, which is computed from the changed log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefixscope.results import InputReport

__all__ = [
    "BreaksReport",
    "CacheReset",
    "Fault",
    "FaultExample",
    "Isolation",
    "RequestStory",
    "TemplateExamination",
    "TemplateProbe",
    "WhatIf",
]


@dataclass(frozen=True, slots=True)
class FaultExample:
    """One request of a fault. Text is None where it is hidden or no longer there; `old` and `new` begin at the first
    differing token, `text_before` ends there. `agreed_tokens` are equal behind the difference."""

    row: int
    request_id: str | None
    compared_with: int
    compared_with_id: str | None
    first_different_token: int
    part: str
    text_before: str | None = None
    old: str | None = None
    new: str | None = None
    agreed_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A recurring cause at one place. `part` is without the number of the message or tool; `place` names the place
    without its text. `share_of_prompt` is lost tokens of all counted prompt tokens; `almost_tokens` is equal text
    behind the difference, which only position-independent caching could use: it is never part of `lost_tokens`."""

    cause: str
    part: str | None
    detail: str | None
    requests: int
    lost_tokens: int
    share_of_prompt: float | None
    almost_tokens: int
    first_row: int
    place: str | None = None
    example: FaultExample | None = None


@dataclass(frozen=True, slots=True)
class Isolation:
    """The price of keeping namespaces apart: prompt tokens computed again only because of it, of rows with one value
    of `by` (adapter, salt, namespace, tenant)."""

    by: str
    name: str | None
    requests: int
    prompt_tokens: int
    recomputed_tokens: int


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The log computed again with causes removed. `change` says how; `changed_requests` were written anew. Cached
    tokens are under the engine's rule in an infinite cache, before and after, of the prompt tokens before and after."""

    causes: tuple[str, ...]
    change: str
    changed_requests: int
    prompt_tokens: int
    cached_tokens: int
    prompt_tokens_after: int
    cached_tokens_after: int

    @property
    def gained_tokens(self) -> int:
        """Prefill tokens no longer computed."""
        return (self.prompt_tokens - self.cached_tokens) - (self.prompt_tokens_after - self.cached_tokens_after)


@dataclass(frozen=True, slots=True)
class CacheReset:
    """The cache was emptied before `first_row` came: `source` is `told`, `events` (recorded KV events) or `measured`
    (proven by the cached tokens in the log; the time is then that of the first request since). `requests` lost
    `lost_tokens` by it, of all rows that were read."""

    time_ns: int
    source: str
    first_row: int
    requests: int
    lost_tokens: int


@dataclass(frozen=True, slots=True)
class BreaksReport:
    """Why prefixes break. `causes` counts all requests by class or cause; `faults` are ranked by tokens lost."""

    input: InputReport
    requests: int
    prompt_tokens: int
    causes: Mapping[str, int]
    faults: tuple[Fault, ...]
    lost_tokens: int
    almost_tokens: int
    not_compared: int
    inferred_sessions: int
    isolation: tuple[Isolation, ...]
    below_unit: int
    what_ifs: tuple[WhatIf, ...] = ()
    notes: tuple[str, ...] = ()
    resets: tuple[CacheReset, ...] = ()
    without_what_if: tuple[str, ...] = ()
    """Causes found in this log that no rule removes from it."""

    def __post_init__(self) -> None:
        assert sum(self.causes.values()) == self.requests
        assert self.lost_tokens == sum(fault.lost_tokens for fault in self.faults)


@dataclass(frozen=True, slots=True)
class MemoryBetween:
    """What lay between a request and the last one that left its prefix: requests and tokens they stored in the same
    pool, how much memory there is, how long entries live, and whether and when the cache was emptied. None: unknown or
    without limit. `replica` and `parent_replica` as logged; `parent_finished_ns` is when that one ended."""

    requests: int
    stored_tokens: int
    memory_tokens: int | None
    lifetime_s: float | None
    reset: CacheReset | None
    replica: str | None
    parent_replica: str | None
    parent_finished_ns: int | None


@dataclass(frozen=True, slots=True)
class RequestStory:
    """One request: what it shared with whom, where it parted from what it was compared with, and what took the rest.

    `facts` are those of its `--requests` row; times are None where the log has none."""

    facts: Mapping[str, Any]
    parent: str | None
    parent_time_ns: int | None
    candidate: str | None
    candidate_time_ns: int | None
    example: FaultExample | None
    detail: str | None
    lost_tokens: int
    almost_tokens: int
    shared_without_isolation: int | None
    namespace: str
    candidate_namespace: str | None
    memory: MemoryBetween | None = None
    taken_tokens: int = 0
    """What a rung, a lifetime or a reset took, where that is the cause."""


@dataclass(frozen=True, slots=True)
class TemplateProbe:
    """One finding of the template doctor. `verdict`: `keeps`, `tail` (only the last characters of a prompt are lost),
    `note`, `breaks`, or `refused` (the template would not render the probe; `says` is its message). The character is
    counted from 0 in the rendered text; `old` and `new` begin with it."""

    probe: str
    verdict: str
    says: str
    first_different_character: int | None = None
    text_before: str | None = None
    old: str | None = None
    new: str | None = None


@dataclass(frozen=True, slots=True)
class TemplateExamination:
    """What the doctor found of one template of a model; `fingerprint` names its source as elsewhere."""

    model: str
    template: str
    fingerprint: str
    rendering: str
    probes: tuple[TemplateProbe, ...]
