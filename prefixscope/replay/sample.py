"""Choosing what to send: whole prefix families, so that the sample reuses as the log does; never random rows.

A family are the rows that share prefixes with each other. One that is larger than a quarter of the sample (everybody
shares one system prompt, say) is split at its weakest links, level by level in whole match units, so that what stays
together shares most; its parts still share the common beginning in the sample. A family that can't be split any more
(one long session) goes in with its first rows only, which later rows can't have influenced. Families are drawn per
stratum (model x power of two of the prompt length) in proportion to its requests; the log's order is kept.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prefixscope.index.lineage import Lineage
from prefixscope.index.topology import Topology
from prefixscope.results.replay import SampleReport, Stratum

__all__ = ["Sample", "families_of", "sample_of"]

Rows = list[int]
LARGEST_SHARE = 4
SMALLEST_LIMIT = 8
"""Families of so many rows are never split: in a small sample a quarter of it would be single rows."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The chosen rows, ascending, and how they were chosen."""

    rows: tuple[int, ...]
    report: SampleReport


def sample_of(lineage: Lineage, size: int, unit: int, seed: int = 0) -> Sample:
    """About `size` rows (never more), the same ones for the same seed.

    >>> lineage = Lineage.from_lengths([40] * 4, [0, 32, 0, 32], [-1, 0, -1, 2])
    >>> sample_of(lineage, 2, 16).rows in ((0, 1), (2, 3))
    True
    """
    assert size >= 1 and unit >= 1
    largest = max(size // LARGEST_SHARE, min(size, SMALLEST_LIMIT)) if size < len(lineage) else len(lineage)
    families = families_of(lineage, largest, unit)
    strata = _strata(lineage, families)
    chosen, cut = _draw(strata, size, len(lineage), random.Random(f"sample {seed}"))
    rows = sorted(row for family in chosen for row in family)
    return Sample(tuple(rows), _report(lineage, rows, strata, chosen, cut, len(families), seed))


def families_of(lineage: Lineage, largest: int, unit: int) -> list[Rows]:
    """The rows in families of at most `largest`, where links allow; each ascending, in order of their first rows.

    Strongest links first: rows of a session, then row and parent by the whole units they share. All links of one
    strength join together or not at all, so no family is cut at an arbitrary place.
    """
    groups = _Groups(len(lineage))
    first_of_session: dict[int, int] = {}
    for row, session in enumerate(lineage.session.codes.tolist()):
        if session >= 0:
            groups.join([row, first_of_session.setdefault(session, row)])
    links: dict[int, list[tuple[int, int]]] = defaultdict(list)
    levels = (lineage.shared_tokens // unit).tolist()
    for row, parent in enumerate(lineage.parent_row.tolist()):
        if parent >= 0 and levels[row] >= 1:
            links[levels[row]].append((row, parent))
    for level in sorted(links, reverse=True):
        groups.join_level(links[level], largest)
    return groups.families()


class _Groups:
    """Rows in disjoint groups; a closed group takes no more rows, because joining all it is linked to was too much."""

    def __init__(self, rows: int) -> None:
        self._above = list(range(rows))
        self._size = [1] * rows
        self._closed: set[int] = set()

    def top(self, row: int) -> int:
        above = self._above
        while above[row] != row:
            above[row] = above[above[row]]
            row = above[row]
        return row

    def join(self, rows: Iterable[int]) -> None:
        tops = list(dict.fromkeys(map(self.top, rows)))
        for other in tops[1:]:
            self._above[other] = tops[0]
            self._size[tops[0]] += self._size[other]

    def join_level(self, links: Iterable[tuple[int, int]], largest: int) -> None:
        """Joins what these links connect, where the whole stays within `largest`; else closes all of it."""
        beside: dict[int, set[int]] = defaultdict(set)
        for row, parent in links:
            a, b = self.top(row), self.top(parent)
            if a != b:
                beside[a].add(b)
                beside[b].add(a)
        seen: set[int] = set()
        for start in beside:
            if start in seen:
                continue
            connected, waiting = [], [start]
            seen.add(start)
            while waiting:
                group = waiting.pop()
                connected.append(group)
                waiting += beside[group] - seen
                seen |= beside[group]
            if sum(self._size[group] for group in connected) > largest or not self._closed.isdisjoint(connected):
                self._closed.update(connected)
            else:
                self.join(connected)

    def families(self) -> list[Rows]:
        parts: dict[int, Rows] = defaultdict(list)
        for row in range(len(self._above)):
            parts[self.top(row)].append(row)
        return sorted(parts.values())


Key = tuple[str, int]


def _strata(lineage: Lineage, families: list[Rows]) -> dict[Key, list[Rows]]:
    """Families by the model of their first row and the power of two of their longest prompt."""
    strata: dict[Key, list[Rows]] = defaultdict(list)
    for family in families:
        longest = int(lineage.prompt_tokens[family].max())
        strata[(lineage.model[family[0]] or "", longest.bit_length())].append(family)
    return dict(sorted(strata.items()))


def _draw(strata: dict[Key, list[Rows]], size: int, rows: int, chance: random.Random) -> tuple[list[Rows], int]:
    """Families in random order, from the stratum that lags most behind its share, as long as they fit."""
    if size >= rows:
        return [family for families in strata.values() for family in families], 0
    waiting = {key: chance.sample(families, len(families)) for key, families in strata.items()}
    requests = {key: sum(map(len, families)) for key, families in strata.items()}
    taken: dict[Key, int] = dict.fromkeys(strata, 0)
    chosen: list[Rows] = []
    left, cut = size, 0
    while left and any(waiting.values()):
        key = max((key for key in waiting if waiting[key]), key=lambda key: requests[key] * size / rows - taken[key])
        family = waiting[key].pop()
        if len(family) > left:
            if not chosen or not any(len(other) <= left for families in waiting.values() for other in families):
                family, cut = family[:left], cut + 1
            else:
                continue
        chosen.append(family)
        taken[key] += len(family)
        left -= len(family)
    return chosen, cut


def _report(
    lineage: Lineage,
    rows: Rows,
    strata: dict[Key, list[Rows]],
    chosen: list[Rows],
    cut: int,
    families: int,
    seed: int,
) -> SampleReport:
    picked = set(rows)
    at: npt.NDArray[np.int64] = np.array(rows, np.int64)
    shared = Topology.of(lineage).stamp(at).shared_tokens
    return SampleReport(
        requests=len(rows),
        prompt_tokens=int(lineage.prompt_tokens[at].sum()),
        families=len(chosen),
        cut_families=cut,
        log_requests=len(lineage),
        log_prompt_tokens=int(lineage.prompt_tokens.sum()),
        reusable_tokens=int(np.minimum(shared, lineage.prompt_tokens[at]).sum()),
        log_reusable_tokens=int(lineage.reusable_tokens.sum()),
        strata=tuple(
            Stratum(
                model=model,
                shortest_tokens=1 << (bits - 1) if bits else 0,
                longest_tokens=(1 << bits) - 1,
                families=len(its),
                requests=sum(map(len, its)),
                sampled_families=sum(family[0] in picked for family in its),
                sampled_requests=sum(row in picked for family in its for row in family),
            )
            for (model, bits), its in strata.items()
        ),
        seed=seed,
    )
