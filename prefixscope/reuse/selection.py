"""Which rows are counted, and which only warm the cache: --since, --until, --warmup, --cold-start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from prefixscope.errors import OptionError
from prefixscope.index.lineage import Lineage, Mask

__all__ = ["Selection", "duration_ns", "instant_ns", "select"]

_SECOND = 1_000_000_000
_UNITS = {"ms": _SECOND // 1000, "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86400 * _SECOND}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Selection:
    """A lineage and the mask of its rows that are counted; the others come earlier and only warm the cache."""

    lineage: Lineage
    counted: Mask


def select(lineage: Lineage, *, since: str | None, until: str | None, warmup: str, cold_start: bool) -> Selection:
    """Applies the options. Rows from `until` on are gone; rows before `since` warm, or are gone under `cold_start`.

    `warmup` is 0, a share of the remaining rows ("50%") or a duration ("10m") from the first of them.
    OptionError where nothing would be left to count.
    """
    if cold_start and since is None:
        raise OptionError("--cold-start: says what --since does with earlier requests; give --since as well")
    _refuse_without_times(lineage, {"--since": since, "--until": until, "--warmup": _duration_or_none(warmup)})
    relative = bool(lineage.provenance.get("input", {}).get("time_is_relative"))
    kept = np.ones(len(lineage), np.bool_)
    counted = kept.copy()
    if until is not None:
        kept &= lineage.time_ns < instant_ns("--until", until, relative=relative)
    if since is not None:
        late = lineage.time_ns >= instant_ns("--since", since, relative=relative)
        counted &= late
        if cold_start:
            kept &= late
    counted = (counted & kept)[kept]
    selected = lineage.where(kept) if kept.any() else lineage
    if not kept.any() or not counted.any():
        raise OptionError("--since/--until: no request lies in that range of time")
    counted &= _warm(selected, counted, warmup)
    if not counted.any():
        raise OptionError(f"--warmup {warmup}: no request is left to count")
    return Selection(selected, counted)


def _duration_or_none(warmup: str) -> str | None:
    return None if warmup.endswith("%") or duration_ns("--warmup", warmup) == 0 else warmup


def _refuse_without_times(lineage: Lineage, asked: Mapping[str, str | None]) -> None:
    """Rows without any time lie in no range of time: an answer would be made up."""
    if lineage.provenance.get("input", {}).get("missing_times", 0) < len(lineage):
        return
    for option, value in asked.items():
        if value is not None:
            raise OptionError(f"{option} {value}: the requests of this log carry no time (--warmup 50% needs none)")


def _warm(lineage: Lineage, counted: Mask, warmup: str) -> Mask:
    rows = np.flatnonzero(counted)
    if warmup.endswith("%"):
        try:
            share = float(warmup[:-1])
        except ValueError:
            share = -1.0
        if not 0 <= share < 100:
            raise OptionError(f"--warmup {warmup}: a share lies from 0% to below 100%")
        behind: Mask = np.arange(len(lineage)) >= rows[int(len(rows) * share / 100)]
        return behind
    start = int(lineage.time_ns[rows[0]])
    later: Mask = lineage.time_ns >= start + duration_ns("--warmup", warmup)
    return later


def duration_ns(option: str, text: str) -> int:
    """A duration such as 30s, 10m or 1.5h in nanoseconds; plain 0 is allowed.

    >>> duration_ns("--warmup", "1.5h")
    5400000000000
    """
    if text == "0":
        return 0
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        share = " a share such as 50%," if option == "--warmup" else ""
        raise OptionError(f"{option} {text}: write 0,{share} or a duration such as 90s, 10m, 2h")
    return int(float(match[1]) * _UNITS[match[2]])


def instant_ns(option: str, text: str, *, relative: bool = False) -> int:
    """An ISO 8601 time (UTC where no zone is given) as epoch nanoseconds; in a log of relative times a duration.

    >>> instant_ns("--since", "1970-01-01T00:00:01Z")
    1000000000
    """
    if relative:
        try:
            return duration_ns(option, text)
        except OptionError:
            raise OptionError(
                f"{option} {text}: the times of this log count from its start; write a duration such as 90s, 10m, 2h"
            ) from None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(f"{option} {text}: write an ISO 8601 time such as 2026-11-18T09:30:00Z") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86400 + delta.seconds) * _SECOND + delta.microseconds * 1000
