"""The story of one request, for `explain --request ID`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from prefixscope.api.breaks import causes_of
from prefixscope.api.losses import LossesByRung, MemoryTold
from prefixscope.errors import OptionError
from prefixscope.index.lineage import NO_TIME, UNKNOWN, Lineage
from prefixscope.ingest import Ingested
from prefixscope.results.breaks import FaultExample, MemoryBetween, RequestStory
from prefixscope.reuse.pools import Applied
from prefixscope.reuse.selection import Selection

__all__ = ["MemoryKnown", "story_of"]

_BEFORE, _BEHIND = 24, 24


@dataclass(frozen=True, slots=True)
class MemoryKnown:
    """What is known of the cache: the engine's rules as applied, what they and resets took, and what was told."""

    applied: Applied
    lost: LossesByRung
    told: MemoryTold


def story_of(
    request: str, ingested: Ingested, selection: Selection, rows: Mapping[str, list[Any]], memory: MemoryKnown, *,
    hide_text: bool,
) -> RequestStory:  # fmt: skip
    """What one request shared, where it parted and what was lost. `request` is a request id, or `row:N`.

    Raises OptionError where there is no such request among the counted ones.
    """
    lineage = selection.lineage
    place = _place_of(request, rows)
    facts = {name: column[place] for name, column in rows.items()}
    untimed = lineage.provenance.get("input", {}).get("missing_times", 0) >= len(lineage)
    if untimed:
        facts["time"] = None
    row = facts["row"]
    columns = lineage.breaks
    assert columns is not None
    candidate, parent = int(columns.candidate_row[row]), int(lineage.parent_row[row])
    # the way back to text counts rows of the whole log
    text = ingested.text if lineage is ingested.lineage and not hide_text else None
    together = lineage.shared_tokens_without_isolation
    return RequestStory(
        facts=facts,
        parent=_name(lineage, parent),
        parent_time_ns=None if parent == UNKNOWN or untimed else int(lineage.time_ns[parent]),
        candidate=_name(lineage, candidate),
        candidate_time_ns=None if candidate == UNKNOWN or untimed else int(lineage.time_ns[candidate]),
        example=_example(lineage, row, candidate, text),
        detail=columns.detail[row],
        lost_tokens=int(columns.lost_tokens[row]),
        almost_tokens=int(columns.almost_tokens[row]),
        shared_without_isolation=None if together is None else int(together[row]),
        namespace=lineage.namespaces[int(lineage.namespace[row])],
        candidate_namespace=None if candidate == UNKNOWN else lineage.namespaces[int(lineage.namespace[candidate])],
        memory=None if parent == UNKNOWN else _between(lineage, row, parent, memory),
        taken_tokens=int(causes_of(lineage, memory.applied, memory.lost)[1][row]),
    )


def _between(lineage: Lineage, row: int, parent: int, memory: MemoryKnown) -> MemoryBetween:
    """What lay between a row and the one that left its prefix, in the memory they share."""
    name = lineage.pools[int(lineage.pool[row])]
    place = next(number for number, pool in enumerate(memory.applied.pools) if pool.pool == name)
    report, profile = memory.applied.pools[place], memory.applied.profiles[place]
    asked = () if report.capacity is None else report.capacity.asked
    rows = np.arange(parent + 1, row)
    same = (lineage.pool[rows] == lineage.pool[row]) & (lineage.replica.codes[rows] == lineage.replica.codes[row])
    told = memory.told.lifetime_ns
    finished = int(lineage.finished_ns[parent])
    return MemoryBetween(
        requests=int(same.sum()),
        stored_tokens=int(lineage.sequence_tokens[rows[same]].sum()),
        memory_tokens=asked[0].blocks * profile.block_size if asked else None,
        lifetime_s=profile.lifetime_s if told is None else told / 1e9,
        reset=next((one for one in memory.lost.resets if parent < one.first_row <= row), None),
        replica=lineage.replica[row],
        parent_replica=lineage.replica[parent],
        parent_finished_ns=None if finished == NO_TIME else finished,
    )


def _place_of(request: str, rows: Mapping[str, list[Any]]) -> int:
    if request in rows["request_id"]:
        return rows["request_id"].index(request)
    number = request.removeprefix("row:")
    if request.startswith("row:") and number.isdecimal() and int(number) in rows["row"]:
        return rows["row"].index(int(number))
    raise OptionError(f"--request {request}: no counted request has this id; requests without one are named row:NUMBER")


def _name(lineage: Lineage, row: int) -> str | None:
    if row == UNKNOWN:
        return None
    return lineage.request_id[row] or f"row:{row}"


def _example(lineage: Lineage, row: int, candidate: int, text: Any) -> FaultExample | None:
    columns = lineage.breaks
    assert columns is not None
    first = int(columns.first_different_token[row])
    if candidate == UNKNOWN or first == UNKNOWN or first >= int(lineage.prompt_tokens[row]):
        return None
    before = old = new = None
    if text is not None:
        before = text.text_of(row, max(first - _BEFORE, 0), first)
        old = text.text_of(candidate, first, first + _BEHIND)
        new = text.text_of(row, first, min(first + _BEHIND, int(lineage.prompt_tokens[row])))
    part, ids = columns.part[row] or "", lineage.request_id
    return FaultExample(row, ids[row], candidate, ids[candidate], first, part, before, old, new)
