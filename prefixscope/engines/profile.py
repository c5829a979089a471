"""An engine profile: what an engine does with prefixes, as data plus one small rule over the lineage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from prefixscope.index.lineage import Int64, Lineage

__all__ = ["EngineOptions", "EngineProfile", "Fact", "Rule", "Visibility"]

Visibility = Literal["scheduled", "prefill_end", "request_end"]
Speculative = Literal["none", "eagle", "mtp"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing known of an engine: what, where it was read, for which versions, and how it was verified."""

    subject: str
    statement: str
    source: str
    versions: str
    verified: Literal["seen running", "function run", "source read", "documented", "unverified"]


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Facts and the rule of one engine version under one configuration.

    `rule(lineage, profile)` returns int64[n]: the prompt tokens of each row that the engine takes from one infinite
    cache when requests run one after another in table order. `match_unit` U is the granularity of a match in tokens,
    `drop_units` the units given up after matching (speculative decoding). `stores_output`: generated tokens stay
    findable. `visible`: when a request's blocks can be found by others. `unhashed_first`: freed blocks without a hash
    are reused before all others. `accepted_block_sizes` is what engine and backend offer (None: any multiple of 1).
    """

    name: str
    version: str
    block_size: int
    match_unit: int
    rule: Rule
    drop_units: int = 0
    partial_reuse: bool = False
    stores_output: bool = True
    visible: Visibility = "scheduled"
    unhashed_first: bool = True
    eviction: str = "lru"
    monotone: bool = True
    speculative: Speculative = "none"
    accepted_block_sizes: tuple[int, ...] | None = None
    facts: tuple[Fact, ...] = ()
    assumed: tuple[str, ...] = ()
    source: str = "defaults"

    def __post_init__(self) -> None:
        assert self.block_size >= 1 and self.match_unit >= 1 and self.drop_units >= 0


Rule = Callable[[Lineage, EngineProfile], Int64]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What the user said about the engine; None means 'not said', and the profile's default is then 'assumed'."""

    block_size: int | None = None
    match_unit: int | None = None
    speculative: Speculative = "none"
    unit: int = 1
    """Tokens per symbol of the log (hash rows); the default block size of profile `trace`."""
