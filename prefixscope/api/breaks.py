"""The breaks part of a report: faults under the engine's rule, per-request columns, and logs computed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prefixscope.api.losses import LossesByRung, losses_of
from prefixscope.api.options import EngineChoice, LogOptions, MemoryOptions, Progress
from prefixscope.api.reading import ingest_options, profile_of, selected
from prefixscope.breaks.causes import NO_FAULTS
from prefixscope.breaks.faults import faults_of, isolation_of
from prefixscope.breaks.rungs import below_unit, final_causes, rung_losses_of
from prefixscope.breaks.table import BreakExample
from prefixscope.breaks.whatif import CHANGES, OTHER_WAYS, UNCHANGEABLE, rewrite_for, thoughts_in
from prefixscope.index.lineage import Int64, Lineage, Mask
from prefixscope.ingest import Ingested, ingest
from prefixscope.logs import FORMATS, expand, read_logs
from prefixscope.results.breaks import BreaksReport, WhatIf
from prefixscope.reuse.accounting import account
from prefixscope.reuse.pools import Applied
from prefixscope.reuse.selection import Selection

__all__ = ["break_columns", "breaks_report", "causes_of", "what_ifs"]


def causes_of(lineage: Lineage, applied: Applied, lost: LossesByRung | None = None) -> tuple[list[str | None], Int64]:
    """The cause of every row under the engine, and what a rung took from those it is to blame for."""
    losses = (lost or losses_of(lineage, applied)).by_rung
    causes = final_causes(lineage, _match_units(lineage, applied), losses, _stores_output(lineage, applied))
    return causes, rung_losses_of(causes, losses, applied.accounting.block_rounding)


def _match_units(lineage: Lineage, applied: Applied) -> Int64:
    units = np.ones(len(lineage), np.int64)
    for report, profile in zip(applied.pools, applied.profiles, strict=True):
        units[lineage.pool == lineage.pools.index(report.pool)] = 1 if profile.partial_reuse else profile.match_unit
    return units


def _stores_output(lineage: Lineage, applied: Applied) -> Mask:
    stores = np.ones(len(lineage), np.bool_)
    for report, profile in zip(applied.pools, applied.profiles, strict=True):
        stores[lineage.pool == lineage.pools.index(report.pool)] = profile.stores_output
    return stores


def break_columns(selection: Selection, applied: Applied, lost: LossesByRung | None = None) -> dict[str, list[Any]]:
    """The break columns of `--requests` for the counted rows; nothing where breaks were not looked for."""
    lineage = selection.lineage
    short = below_unit(lineage, _match_units(lineage, applied))
    rows = np.flatnonzero(selection.counted).tolist()
    columns: dict[str, list[Any]] = {"below_unit": [bool(short[row]) for row in rows]}
    if lineage.breaks is not None:
        causes, _ = causes_of(lineage, applied, lost)
        columns["break_cause"] = [causes[row] for row in rows]
    return columns


def breaks_report(
    ingested: Ingested,
    selection: Selection,
    applied: Applied,
    *,
    hide_text: bool = False,
    lost: LossesByRung | None = None,
) -> BreaksReport | None:
    """Faults of the counted rows; None where the lineage came without break columns. `lost`: what rungs, lifetimes and
    resets took, where the caller knows it already."""
    lineage, counted = selection.lineage, selection.counted
    if lineage.breaks is None:
        return None
    lost = lost or losses_of(lineage, applied)
    causes, rung_losses = causes_of(lineage, applied, lost)
    # examples name rows of the whole log: where rows were dropped, the columns alone have to do
    whole = lineage is ingested.lineage and ingested.breaks is not None
    examples: Mapping[int, BreakExample] = ingested.breaks.examples if whole and ingested.breaks is not None else {}
    faults = faults_of(lineage, counted, causes, rung_losses, examples, hide_text=hide_text)
    told = lineage.provenance.get("breaks", {})
    classes = Counter(causes[row] or "not_compared" for row in np.flatnonzero(counted).tolist())
    return BreaksReport(
        input=ingested.report,
        requests=int(counted.sum()),
        prompt_tokens=int(lineage.prompt_tokens[counted].sum()),
        causes=dict(sorted(classes.items(), key=lambda item: (item[0] not in NO_FAULTS, -item[1], item[0]))),
        faults=faults,
        lost_tokens=sum(fault.lost_tokens for fault in faults),
        almost_tokens=sum(fault.almost_tokens for fault in faults),
        not_compared=classes.get("not_compared", 0),
        inferred_sessions=int(told.get("inferred_sessions", 0)),
        isolation=isolation_of(lineage, counted),
        below_unit=int((below_unit(lineage, _match_units(lineage, applied)) & counted).sum()),
        resets=lost.resets,
        without_what_if=tuple(dict.fromkeys(fault.cause for fault in faults if fault.cause in UNCHANGEABLE)),
    )


def what_ifs(
    ingested: Ingested,
    groups: Sequence[tuple[str, ...]],
    log: LogOptions,
    engine: EngineChoice,
    memory: MemoryOptions,
    progress: Progress,
) -> tuple[WhatIf, ...]:
    """The log read again for every group of causes, without them; the unchanged log is accounted once. For the first
    cause also its other way, where it has one: text moved or kept instead of left out."""
    before = _cached(ingested.lineage, log, engine, memory)
    spots = (
        []
        if ingested.breaks is None
        else [example.spot for example in ingested.breaks.examples.values() if example.spot is not None]
    )
    files = expand(log.logs, FORMATS)
    found = []
    ways = [(causes, CHANGES, False) for causes in groups]
    ways += [(causes, OTHER_WAYS, True) for causes in groups[:1] if causes[0] in OTHER_WAYS and len(causes) == 1]
    for causes, changes, keeps in ways:
        plain = ingest_options(log, engine)
        thoughts = thoughts_in(read_logs(files, plain.read)) if keeps and "reasoning_dropped" in causes else None
        options = replace(plain, rewrite=rewrite_for(causes, spots, keeps, thoughts))
        if "cache_salt" in causes:
            options = replace(options, namespace_by=None)
        what = f"what if ({', '.join(causes)})"
        again = ingest(files, options, lambda done, what=what: progress(what, done, log.limit))  # type: ignore[misc]
        after = _cached(again.lineage, log, engine, memory)
        found.append(
            WhatIf(
                causes=causes,
                change="; ".join(changes[cause] for cause in causes),
                changed_requests=_changed(ingested.lineage, again.lineage),
                prompt_tokens=before[0],
                cached_tokens=before[1],
                prompt_tokens_after=after[0],
                cached_tokens_after=after[1],
            )
        )
    return tuple(found)


def _cached(lineage: Lineage, log: LogOptions, engine: EngineChoice, memory: MemoryOptions) -> tuple[int, int]:
    """Prompt tokens and tokens granted by the engine's rule, of the counted rows, in an infinite cache."""
    selection = selected(lineage, log)
    lineage, counted = selection.lineage, selection.counted
    name = engine.names[0] if engine.names else None
    cached = 0
    for pool, base in enumerate(lineage.pools):
        mask = lineage.pool == pool
        if not mask.any():
            continue
        own = lineage.closed_subset(mask)
        cached += int(account(own, profile_of(own, base, engine, name, memory)).cached[counted[mask]].sum())
    return int(lineage.prompt_tokens[counted].sum()), cached


def _changed(before: Lineage, after: Lineage) -> int:
    """Rows with another length or another share: what a rewrite did as far as lengths tell."""
    if len(before) != len(after):
        return abs(len(before) - len(after))
    other = (before.prompt_tokens != after.prompt_tokens) | (before.shared_tokens != after.shared_tokens)
    return int(other.sum())
