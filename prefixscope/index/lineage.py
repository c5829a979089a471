"""The lineage: one row per request in time order, without text or tokens; all later analysis is arithmetic on it.

`shared_tokens` S is the longest common prefix of a row's sequence with any earlier sequence of its namespace, and
`parent_row` is the most recent earlier row that shares those S tokens. The pairs (parent, S) with P and T are the
whole prefix tree at token granularity: `index.topology` rebuilds it, so any subset gets its own exact lineage.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["NO_TIME", "OUTPUTS", "UNKNOWN", "BreakColumns", "Int64", "Labels", "Lineage", "Mask"]

Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

UNKNOWN = -1
"""Stands for an unknown count, parent or label in integer columns: unknown is not zero."""

NO_TIME = np.iinfo(np.int64).min
"""Stands for an unknown instant."""

OUTPUTS = ("unknown", "length", "text", "ids")
"""What is known of a row's generated tokens; the `output` column holds the position in this tuple."""


@dataclass(frozen=True, slots=True)
class Labels:
    """A column of repeated strings: `codes` index `names`, UNKNOWN where the log has none.

    >>> column = Labels.of(["a", None, "b", "a"])
    >>> column[0], column[1], column.names
    ('a', None, ('a', 'b'))
    """

    codes: npt.NDArray[np.int32]
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[str | None]) -> Labels:
        """Codes in order of first appearance."""
        seen: dict[str, int] = {}
        codes = [UNKNOWN if value is None else seen.setdefault(value, len(seen)) for value in values]
        return cls(np.array(codes, np.int32), tuple(seen))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str | None:
        code = int(self.codes[row])
        return None if code < 0 else self.names[code]

    def where(self, mask: Mask) -> Labels:
        """The same column for fewer rows; names stay as they are."""
        return Labels(self.codes[mask], self.names)


@dataclass(frozen=True, slots=True)
class BreakColumns:
    """Why each row could not share more, one entry per row (docs/breaks.md has the words).

    `cause` and `part` are words; `candidate_row` is the row compared with, `first_different_token` the first token of
    the prompt that differs from it (both UNKNOWN where nothing was compared). `place` is a hash of where it broke,
    without what varies: equal cause, part kind and place are one fault. `lost_tokens` is the reuse that would exist
    without the difference, `almost_tokens` equal text behind it that no prefix cache can use.
    """

    cause: Labels
    part: Labels
    detail: Labels
    candidate_row: Int64
    first_different_token: Int64
    place: Int64
    lost_tokens: Int64
    almost_tokens: Int64

    def where(self, mask: Mask) -> BreakColumns:
        """The same for fewer rows. A candidate that is dropped is no longer known; causes stay as they were found."""
        position = np.where(mask, np.cumsum(mask) - 1, UNKNOWN)
        rows = self.candidate_row[mask]
        return BreakColumns(
            cause=self.cause.where(mask),
            part=self.part.where(mask),
            detail=self.detail.where(mask),
            candidate_row=np.where(rows >= 0, position[rows], UNKNOWN),
            first_different_token=self.first_different_token[mask],
            place=self.place[mask],
            lost_tokens=self.lost_tokens[mask],
            almost_tokens=self.almost_tokens[mask],
        )


@dataclass(frozen=True, slots=True)
class Lineage:
    """The table. Every array has one entry per row, rows are in (time, file position, line) order.

    Token columns are int64 counts of tokens (not symbols, also for hash rows). `namespace` and `pool` index the
    tuples `namespaces` (label) and `pools` (base model). Rows of different namespaces share nothing; rows of one pool
    share memory.
    """

    time_ns: Int64
    first_token_ns: Int64
    finished_ns: Int64
    file: Labels
    line: Int64
    request_id: npt.NDArray[np.object_]
    model: Labels
    adapter: Labels
    session: Labels
    tenant: Labels
    replica: Labels
    namespace: Int64
    pool: Int64
    unit: Int64
    tier: Int64
    output: Int64
    n: Int64
    status: Int64
    reads_cache: Mask
    prompt_tokens: Int64
    sequence_tokens: Int64
    output_tokens: Int64
    shared_tokens: Int64
    shared_prompt_tokens: Int64
    parent_row: Int64
    measured_prompt_tokens: Int64
    measured_cached_tokens: Int64
    namespaces: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    shared_tokens_without_isolation: Int64 | None = None
    """S if nothing kept rows of one base model apart (adapters, salts); None where that was not looked at."""
    breaks: BreakColumns | None = None
    """Why rows could not share more; None where the log was read without looking."""

    def __post_init__(self) -> None:
        assert (self.shared_tokens <= self.sequence_tokens).all()
        assert (self.shared_prompt_tokens <= self.shared_tokens).all()
        assert ((self.parent_row >= 0) == (self.shared_tokens > 0)).all()
        assert (self.parent_row < np.arange(len(self))).all()

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def reusable_tokens(self) -> Int64:
        """min(S, P): what a perfect, token-granular, never-forgetting cache could reuse, int64[n]."""
        return np.minimum(self.shared_tokens, self.prompt_tokens)

    def where(self, mask: Mask) -> Lineage:
        """The rows of `mask` with their own exact lineage: it is re-stamped, not cut out of this one."""
        from prefixscope.index.topology import Topology  # the tree is only rebuilt when a subset is asked for

        if bool(mask.all()):
            return self
        rows = np.flatnonzero(mask)
        stamps = Topology.of(self).stamp(rows)
        columns = self._columns_where(mask)
        columns["shared_tokens"] = stamps.shared_tokens
        columns["shared_prompt_tokens"] = stamps.shared_prompt_tokens
        columns["parent_row"] = stamps.parent_row
        columns["shared_tokens_without_isolation"] = None  # of fewer rows it can't be told without the tokens
        return dataclasses.replace(self, **columns)

    def closed_subset(self, mask: Mask) -> Lineage:
        """The rows of `mask` where none of them shares anything with the others (whole namespaces): no re-stamping."""
        if bool(mask.all()):
            return self
        position = np.cumsum(mask) - 1
        parents = self.parent_row[mask]
        shares = parents >= 0
        assert mask[parents[shares]].all(), "a kept row shares with a dropped one"
        return dataclasses.replace(
            self, **self._columns_where(mask), parent_row=np.where(shares, position[parents], UNKNOWN)
        )

    def _columns_where(self, mask: Mask) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        for column in dataclasses.fields(self):
            value = getattr(self, column.name)
            if column.name == "parent_row":
                continue
            if isinstance(value, Labels | BreakColumns):
                columns[column.name] = value.where(mask)
            elif isinstance(value, np.ndarray):
                columns[column.name] = value[mask]
        return columns

    @classmethod
    def from_lengths(
        cls,
        prompt_tokens: Sequence[int],
        shared_tokens: Sequence[int],
        parent_row: Sequence[int],
        *,
        sequence_tokens: Sequence[int] | None = None,
        shared_prompt_tokens: Sequence[int] | None = None,
        **columns: Any,
    ) -> Lineage:
        """A lineage from its defining numbers; every other column is filled with 'unknown' (one namespace, one pool).

        >>> Lineage.from_lengths([50, 50], [0, 48], [-1, 0]).reusable_tokens.tolist()
        [0, 48]
        """
        rows = len(prompt_tokens)
        prompts = np.asarray(prompt_tokens, np.int64)
        shared = np.asarray(shared_tokens, np.int64)
        nothing = Labels(np.full(rows, UNKNOWN, np.int32), ())
        unknown = np.full(rows, UNKNOWN, np.int64)
        filled: dict[str, Any] = {
            "time_ns": np.arange(rows, dtype=np.int64),
            "first_token_ns": np.full(rows, NO_TIME, np.int64),
            "finished_ns": np.full(rows, NO_TIME, np.int64),
            "file": nothing,
            "line": np.arange(1, rows + 1, dtype=np.int64),
            "request_id": np.full(rows, None, object),
            "model": nothing,
            "adapter": nothing,
            "session": nothing,
            "tenant": nothing,
            "replica": nothing,
            "namespace": np.zeros(rows, np.int64),
            "pool": np.zeros(rows, np.int64),
            "unit": np.ones(rows, np.int64),
            "tier": np.ones(rows, np.int64),
            "output": np.zeros(rows, np.int64),
            "n": np.ones(rows, np.int64),
            "status": unknown,
            "reads_cache": np.ones(rows, np.bool_),
            "output_tokens": unknown,
            "measured_prompt_tokens": unknown,
            "measured_cached_tokens": unknown,
            "namespaces": ("",),
            "pools": ("",),
        }
        filled.update(columns)
        return cls(
            prompt_tokens=prompts,
            sequence_tokens=prompts if sequence_tokens is None else np.asarray(sequence_tokens, np.int64),
            shared_tokens=shared,
            shared_prompt_tokens=shared if shared_prompt_tokens is None else np.asarray(shared_prompt_tokens, np.int64),
            parent_row=np.asarray(parent_row, np.int64),
            **filled,
        )
