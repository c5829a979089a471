"""What the endpoint should have read from its cache: predictions for exactly what was sent since the last cold start.

The rows become a lineage of their own (prefix tree, then stamps in the order of admission). An unlimited cache is the
engine profile's rule over it (for what is in flight together, as far as it is visible), a limited one the pool
simulator. A request that failed halfway may have been stored or
not: both are simulated, and where that matters for a row its prediction is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from prefixscope.capacity.pool import EVICTIONS, simulate_pool
from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import NO_TIME, Int64, Lineage
from prefixscope.index.tree import PrefixTree
from prefixscope.replay.item import SentRow
from prefixscope.reuse.in_flight import in_flight

__all__ = ["Order", "Prediction", "admission_order", "lineage_of", "predict"]

Order = Literal["serial", "admission"]
NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Prediction:
    """Cached tokens of each row in the order given (None: can't be told), and the memory they were limited to."""

    cached_tokens: tuple[int | None, ...]
    cache: str
    order: Order
    why_unknown: str = "an earlier call failed halfway: what the endpoint stored of it is not known"


def admission_order(rows: Sequence[SentRow], order: Order) -> list[int]:
    """Positions of `rows` in the order the engine let them in, as far as a client can know.

    Requests overtake each other on the way in, while prompts are rendered and tokenised. A server answers with the head
    of the stream when that is done and hands the request to its engine, which admits first come, first served: the
    order of the heads is the order of admission (vLLM 0.32: 0 of 1,600 requests at concurrency 8 contradicted it, where
    the order of sending was contradicted by 8).
    """
    if order == "serial":
        return list(range(len(rows)))
    return sorted(range(len(rows)), key=lambda at: _admitted_s(rows[at]))


def _admitted_s(row: SentRow) -> float:
    return row.sent_s if row.accepted_s is None else row.accepted_s


def lineage_of(rows: Sequence[SentRow]) -> Lineage:
    """The rows' own lineage, in the order given; times count from the first row's clock."""
    tree = PrefixTree()
    ends = [tree.insert(row.namespace, row.tokens, row.prompt_tokens) for row in rows]
    stamps = tree.stamp(ends)
    namespaces = list(dict.fromkeys(row.namespace for row in rows))
    number = {namespace: at for at, namespace in enumerate(namespaces)}
    return Lineage.from_lengths(
        [row.prompt_tokens for row in rows],
        stamps.shared_tokens.tolist(),
        stamps.parent_row.tolist(),
        sequence_tokens=[row.sequence_tokens for row in rows],
        shared_prompt_tokens=stamps.shared_prompt_tokens.tolist(),
        namespace=np.array([number[row.namespace] for row in rows], np.int64),
        namespaces=tuple(str(at) for at in range(len(namespaces))),
        time_ns=_nanoseconds([_admitted_s(row) for row in rows]),
        first_token_ns=_nanoseconds([row.first_token_s for row in rows]),
        finished_ns=_nanoseconds([row.finished_s for row in rows]),
    )


def _nanoseconds(seconds: Sequence[float | None]) -> Int64:
    return np.array([NO_TIME if value is None else round(value * NANOSECONDS) for value in seconds], np.int64)


def predict(
    rows: Sequence[SentRow], profile: EngineProfile, usable_blocks: int | None = None, order: Order = "serial"
) -> Prediction:
    """Cached tokens for every row; `usable_blocks` None: the endpoint does not tell, so nothing is ever forgotten.

    >>> from prefixscope.engines import resolve
    >>> from prefixscope.replay.item import tokens_of
    >>> prompt = tokens_of(range(40))
    >>> predict([SentRow((), prompt, 40, 40)] * 2, resolve("vllm")).cached_tokens
    (0, 32)
    """
    if not rows:
        return Prediction((), "infinite", order)
    limited = usable_blocks is not None and _blocks_wanted(rows, profile) > usable_blocks
    cache = f"{usable_blocks} blocks" if limited else "infinite"
    if limited and profile.eviction not in EVICTIONS:
        why = f"what {profile.name} forgets when its memory is full is not simulated"
        return Prediction((None,) * len(rows), cache, order, why)
    most = _one_world(rows, profile, usable_blocks if limited else None, order, assume_stored=True)
    if all(row.stored is not None for row in rows):
        return Prediction(tuple(most), cache, order)
    least = _one_world(rows, profile, usable_blocks if limited else None, order, assume_stored=False)
    return Prediction(tuple(a if a == b else None for a, b in zip(most, least, strict=True)), cache, order)


def _blocks_wanted(rows: Sequence[SentRow], profile: EngineProfile) -> int:
    """Blocks that all rows together would take if nothing were shared: a memory of this size never forgets."""
    return sum(-(-row.sequence_tokens // profile.block_size) for row in rows if row.stored is not False)


def _one_world(
    rows: Sequence[SentRow], profile: EngineProfile, blocks: int | None, order: Order, *, assume_stored: bool
) -> list[int | None]:
    stored = [assume_stored if row.stored is None else row.stored for row in rows]
    there = [at for at in admission_order(rows, order) if stored[at]]
    cached: list[int | None] = [None] * len(rows)
    if not there:
        return cached
    lineage = lineage_of([rows[at] for at in there])
    for at, tokens in zip(there, _cached(lineage, profile, blocks, order).tolist(), strict=True):
        cached[at] = tokens
    return cached


def _cached(lineage: Lineage, profile: EngineProfile, blocks: int | None, order: Order) -> Int64:
    if blocks is not None:
        together = order != "serial"
        return simulate_pool(lineage, profile, blocks, overlap=together, ends_as_logged=together).cached_tokens
    if order == "serial":
        return profile.rule(lineage, profile)
    found = in_flight(lineage, profile)
    assert found is not None, "every row was sent and ended at a known time"
    return found.cached_tokens
