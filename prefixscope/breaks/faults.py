"""Rows with the same cause at the same place, as one fault; ranked by what they cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from prefixscope.breaks.causes import NO_FAULTS
from prefixscope.breaks.table import BreakExample
from prefixscope.index.lineage import UNKNOWN, Int64, Lineage, Mask
from prefixscope.results import rate
from prefixscope.results.breaks import Fault, FaultExample, Isolation

__all__ = ["example_of", "faults_of", "isolation_of"]

_NUMBER = re.compile(r"\s\d+")


def faults_of(
    lineage: Lineage,
    counted: Mask,
    causes: Sequence[str | None],
    rung_losses: Int64,
    examples: Mapping[int, BreakExample],
    *,
    hide_text: bool = False,
) -> tuple[Fault, ...]:
    """All faults of the counted rows, the most expensive first. `rung_losses`: tokens a rung took from each row."""
    assert lineage.breaks is not None
    columns = lineage.breaks
    members: dict[tuple[str, str | None, int], list[int]] = {}
    for row in np.flatnonzero(counted).tolist():
        cause = causes[row]
        if cause is None or cause in NO_FAULTS or cause == "not_compared":
            continue
        own = cause == columns.cause[row]
        part = columns.part[row] if own else None
        key = (cause, None if part is None else _NUMBER.sub("", part), int(columns.place[row]) if own else UNKNOWN)
        members.setdefault(key, []).append(row)
    prompt_tokens = int(lineage.prompt_tokens[counted].sum())
    found = []
    for (cause, part, place), rows in members.items():
        own = cause == columns.cause[rows[0]]
        lost = int((columns.lost_tokens if own else rung_losses)[rows].sum())
        example = examples.get(place)
        # a kept example may be of a row that only warms the cache here; then the columns of a counted row have to do
        shown = example_of(lineage, example, hide_text=hide_text) if example and example.row in rows else None
        found.append(
            Fault(
                cause=cause,
                part=part,
                detail=columns.detail[rows[0]] if own else None,
                requests=len(rows),
                lost_tokens=lost,
                share_of_prompt=rate(lost, prompt_tokens),
                almost_tokens=int(columns.almost_tokens[rows].sum()) if own else 0,
                first_row=rows[0],
                place=None if place == UNKNOWN else f"{place:016x}",
                example=shown or (_bare_example(lineage, rows) if own else None),
            )
        )
    return tuple(sorted(found, key=lambda fault: (-fault.lost_tokens, -fault.requests, fault.first_row)))


def example_of(lineage: Lineage, example: BreakExample, *, hide_text: bool) -> FaultExample:
    """An example as reports give it."""
    return FaultExample(
        row=example.row,
        request_id=lineage.request_id[example.row],
        compared_with=example.candidate,
        compared_with_id=lineage.request_id[example.candidate],
        first_different_token=example.first_different_token,
        part=example.part,
        text_before=None if hide_text else example.left,
        old=None if hide_text else example.old,
        new=None if hide_text else example.new,
        agreed_tokens=example.agreed_tokens,
    )


def _bare_example(lineage: Lineage, rows: Sequence[int]) -> FaultExample | None:
    """From the columns alone: the most expensive row of a fault whose text is not there."""
    columns = lineage.breaks
    assert columns is not None
    row = max(rows, key=lambda one: (int(columns.lost_tokens[one]), -one))
    candidate = int(columns.candidate_row[row])
    if candidate == UNKNOWN:
        return None
    return FaultExample(
        row=row,
        request_id=lineage.request_id[row],
        compared_with=candidate,
        compared_with_id=lineage.request_id[candidate],
        first_different_token=int(columns.first_different_token[row]),
        part=columns.part[row] or "",
    )


def isolation_of(lineage: Lineage, counted: Mask) -> tuple[Isolation, ...]:
    """What keeping adapters, salts and other namespaces of a base model apart costs, per value; dearest first."""
    together = lineage.shared_tokens_without_isolation
    if together is None:
        return ()
    again = np.minimum(together, lineage.prompt_tokens) - lineage.reusable_tokens
    if not (again[counted] > 0).any():
        return ()
    found: list[Isolation] = []
    namespaces = [lineage.namespaces[code] for code in lineage.namespace.tolist()]
    rows = np.flatnonzero(counted).tolist()
    for by, names in (
        ("namespace", namespaces),
        ("adapter", [lineage.adapter[row] for row in range(len(lineage))]),
        ("salt", [_salt_of(name) for name in namespaces]),
        ("tenant", [lineage.tenant[row] for row in range(len(lineage))]),
    ):
        found += _summed(by, names, rows, again, lineage.prompt_tokens)
    return tuple(found)


def _salt_of(namespace: str) -> str | None:
    """Salt and other isolating key in the name of a namespace; None where it has none.

    >>> _salt_of("qwen · adapter a · salt 2"), _salt_of("qwen")
    ('salt 2', None)
    """
    keys = [part for part in namespace.split(" · ")[1:] if part.startswith(("salt ", "extra_key"))]
    return " · ".join(keys) or None


def _summed(by: str, names: Sequence[str | None], rows: Iterable[int], again: Int64, prompts: Int64) -> list[Isolation]:
    requests: Counter[str | None] = Counter()
    prompt: Counter[str | None] = Counter()
    recomputed: Counter[str | None] = Counter()
    for row in rows:
        requests[names[row]] += 1
        prompt[names[row]] += int(prompts[row])
        recomputed[names[row]] += int(again[row])
    if len(requests) < 2:
        return []
    return [
        Isolation(by, name, requests[name], prompt[name], tokens) for name, tokens in recomputed.most_common() if tokens
    ]
