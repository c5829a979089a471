"""What the pool simulator serves (a job) and what serves it (a memory with its own eviction scheme)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from prefixscope.engines.profile import EngineProfile

__all__ = ["Job", "Memory", "matched_tokens"]


@dataclass(frozen=True, slots=True)
class Job:
    """One request as the memory sees it: the keys of its blocks (content by prefix), and how many it occupies.

    `prompt_keys` keys are complete when the prompt is, the others when it ends. `limit` blocks may be looked up,
    `granted` tokens are the most the engine's rule allows; a partly matched block must be found under `partial_key`.
    """

    row: int
    keys: list[int]
    prompt_keys: int
    needed: int
    limit: int
    granted: int
    partial_key: int = -1


class Memory(Protocol):
    """What an eviction scheme provides. `start` pins blocks and returns cached tokens, or None without room."""

    evicted: int

    def start(self, job: Job) -> int | None: ...
    def publish(self, job: Job) -> None: ...
    def finish(self, job: Job) -> None: ...
    def check(self) -> None: ...


def matched_tokens(found_blocks: int, granted: int, profile: EngineProfile) -> int:
    """Cached tokens where `found_blocks` leading blocks are resident: whole units, less the dropped ones.

    >>> from prefixscope.engines import resolve
    >>> matched_tokens(3, 100, resolve("vllm"))
    48
    """
    unit = max(profile.match_unit, profile.block_size)
    drop = profile.drop_units if profile.match_unit >= profile.block_size else 0
    return min(max(found_blocks * profile.block_size // unit - drop, 0) * unit, granted)
