"""KV events as engines publish them, in one form: what was stored, removed or cleared, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["AllBlocksCleared", "BlockRemoved", "BlockStored", "EventBatch", "EventHash", "KVEvent", "event_hash_text"]

EventHash = int | bytes
"""A block's hash in an event: a 64-bit number (vLLM unsigned, SGLang signed), or the whole digest."""


def event_hash_text(value: EventHash) -> str:
    """How an event hash is written for people: digests in hex."""
    return value.hex() if isinstance(value, bytes) else str(value)


@dataclass(frozen=True, slots=True)
class BlockStored:
    """Consecutive blocks were put into the cache behind `parent` (None: they begin a prompt).

    `tokens` are the little-endian uint32 ids of all blocks; empty where the publisher does not know them (lower
    tiers). `extra_keys` has one entry per block as published, that is without vLLM's tags; None where the event has
    no such field. `salt` is set by SGLang only. `lookahead` are the tokens behind the last block (vLLM 0.33).
    """

    hashes: tuple[EventHash, ...]
    parent: EventHash | None
    tokens: bytes
    block_size: int
    adapter_id: int | None = None
    adapter_name: str | None = None
    medium: str | None = None
    extra_keys: tuple[tuple[Any, ...] | None, ...] | None = None
    group: int | None = None
    salt: str | None = None
    session_id: str | None = None
    lookahead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """Copies of these blocks left the cache (one per listed hash)."""

    hashes: tuple[EventHash, ...]
    medium: str | None = None
    group: int | None = None


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """The cache of this rank was emptied."""


KVEvent = BlockStored | BlockRemoved | AllBlocksCleared


@dataclass(frozen=True, slots=True)
class EventBatch:
    """One message of a publisher. `sequence` counts its messages from 0; None where the recording dropped it.

    `time_ns` is the publisher's clock, nanoseconds UTC. `unknown` names event types that were not understood.
    """

    events: tuple[KVEvent, ...]
    sequence: int | None = None
    time_ns: int | None = None
    rank: int | None = None
    topic: str = ""
    unknown: tuple[str, ...] = ()
