"""What a report says before everything else: one plain reason for most of the lost reuse, as plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Finding", "SmallerUnit"]


@dataclass(frozen=True, slots=True)
class SmallerUnit:
    """What a smaller block would cache of the same log, and whether engine and backend offer it (None: not known)."""

    block_size: int
    cached_tokens: int
    offered: bool | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One plain reason for most of the lost reuse of a pool.

    `prefixes_shorter_than_unit`: `short_requests` of the `sharing_requests` share less than `least_tokens`, the
    shortest prefix of which the engine takes anything, and lose `lost_tokens` by that. `shared_lengths` are quantiles
    (p10 to p100) of what the sharing requests share. `offered`: block sizes that can be chosen (None: any).
    """

    kind: str
    pool: str
    requests: int
    prompt_tokens: int
    sharing_requests: int
    short_requests: int
    lost_tokens: int
    reusable_tokens: int
    least_tokens: int
    match_unit: int
    match_unit_why: str
    minimum_tokens: int
    shared_lengths: Mapping[str, int]
    smaller_units: tuple[SmallerUnit, ...]
    offered: tuple[int, ...] | None

    def __post_init__(self) -> None:
        assert 0 < self.short_requests <= self.sharing_requests <= self.requests
        assert 0 < self.lost_tokens <= self.reusable_tokens
