"""Builds a lineage: requests come in file order, the tree grows, and rows leave in time order with what they share."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from prefixscope.index.grafting import Grafting
from prefixscope.index.lineage import NO_TIME, OUTPUTS, UNKNOWN, Int64, Labels, Lineage
from prefixscope.index.row_batch import RowBatch
from prefixscope.index.tree import EndsTable, PrefixTree
from prefixscope.records import Identity, LoggedRequest, Prompt

__all__ = ["BuiltLineage", "LineageBuilder", "RowFacts", "row_facts"]

_CODES = {"namespace": "i", "pool": "i"}
_COUNTS = {
    "line": "q", "unit": "q", "tier": "b", "output": "b", "n": "q", "status": "q", "prompt_tokens": "q",
    "sequence_tokens": "q", "output_tokens": "q", "measured_prompt_tokens": "q", "measured_cached_tokens": "q",
    "known_tokens": "q",
}  # fmt: skip
_TIMES = ("time_ns", "first_token_ns", "finished_ns")
_LABELS = ("file", "model", "adapter", "session", "tenant", "replica")


class RowFacts(NamedTuple):
    """What a row tells beside its tokens; plain data that is cheap to send. `counts`, `times` and `labels` are in the
    order of the builder's columns."""

    counts: tuple[int, ...]
    times: tuple[int | None, ...]
    labels: tuple[str | None, ...]
    request_id: str | None
    reads_cache: bool


def row_facts(request: LoggedRequest, prompt: Prompt) -> RowFacts:
    """The facts of a request and its prompt."""
    symbols = len(prompt.tokens) // 4
    usage = request.usage
    # Usage of a call with several prompts counts them together: it says nothing of one of them.
    own = usage if usage is not None and request.prompts_in_call == 1 else None
    counts = (
        request.source.line,
        prompt.unit,
        request.tier,
        OUTPUTS.index(prompt.output),
        prompt.n,
        _known(request.status),
        prompt.prompt_tokens,
        prompt.sequence_tokens,
        _generated(request, prompt),
        _known(None if own is None else own.prompt_tokens),
        _known(None if own is None else own.cached_tokens),
        symbols if prompt.unit == 1 else prompt.prompt_tokens,
    )
    labels = (
        request.source.file, request.model, prompt.identity.adapter, request.session_id, request.tenant,
        request.replica,
    )  # fmt: skip
    times = (request.time_ns, request.first_token_ns, request.finished_ns)
    return RowFacts(counts, times, labels, request.request_id, prompt.reads_cache)


@dataclass(frozen=True, slots=True)
class BuiltLineage:
    """The table, its tree and where each row's sequence ends in it; `ties` counts rows at the same instant as the row
    before, `missing_times` those that took the previous row's time. `order` gives the position in which each row was
    added, `identities` its identity."""

    lineage: Lineage
    tree: PrefixTree
    ends: EndsTable
    ties: int
    missing_times: int
    order: Int64
    identities: tuple[Identity, ...]


class LineageBuilder:
    """Collects one row per prompt. `finish` may be called once."""

    def __init__(self) -> None:
        self.tree = PrefixTree()
        self._ends = EndsTable()
        self._codes = {name: array(form) for name, form in _CODES.items()}
        self._counts = {name: array(form) for name, form in _COUNTS.items()}
        self._times = {name: array("q") for name in _TIMES}
        self._labels = {name: _LabelColumn() for name in _LABELS}
        self._request_ids: list[str | None] = []
        self._reads_cache = bytearray()
        self._namespaces: dict[tuple[str, ...], int] = {}
        self._identities: list[Identity] = []
        self._pools: dict[str, int] = {}
        self._grafting = Grafting(self.tree)

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def identities(self) -> Sequence[Identity]:
        """One identity of each namespace met so far."""
        return self._identities

    def add(self, request: LoggedRequest, prompt: Prompt) -> None:
        """One row; the prompt's tokens go into the tree, its text is not kept."""
        self.add_row(row_facts(request, prompt), prompt.identity, prompt.tokens)

    def add_row(self, facts: RowFacts, identity: Identity, tokens: bytes) -> None:
        """One row from its facts; `tokens` are the ids (or symbols) that are known of its sequence."""
        namespace = self._namespace_of(identity)
        for column, value in zip(self._counts.values(), facts.counts, strict=True):
            column.append(value)
        for times, time_ns in zip(self._times.values(), facts.times, strict=True):
            times.append(NO_TIME if time_ns is None else time_ns)
        for labels, label in zip(self._labels.values(), facts.labels, strict=True):
            labels.append(label)
        self._codes["namespace"].append(namespace)
        self._codes["pool"].append(self._pools.setdefault(identity.pool, len(self._pools)))
        self._request_ids.append(facts.request_id)
        self._reads_cache.append(facts.reads_cache)
        prompt_symbols = -(-self._counts["prompt_tokens"][-1] // self._counts["unit"][-1])
        self._grafting.note(len(self), namespace, tokens)
        self._ends.append(self.tree.insert(namespace, tokens, min(len(tokens) // 4, prompt_symbols)))

    def add_rows(self, batch: RowBatch) -> None:
        """Many rows; the same as one `add_row` after another, in far less time."""
        for name, column in self._counts.items():
            column.frombytes(batch.counts[name].astype(column.typecode).tobytes())
        for name, times in self._times.items():
            known = batch.time_ns if name == "time_ns" else np.full(len(batch), NO_TIME)
            times.frombytes(known.tobytes())
        for name, labels in self._labels.items():
            labels.extend(batch.labels.get(name), len(batch))
        namespaces = np.array([self._namespace_of(one) for one in batch.identities])[batch.identity]
        pools = np.array([self._pools.setdefault(one.pool, len(self._pools)) for one in batch.identities])
        self._codes["namespace"].frombytes(namespaces.astype(np.int32).tobytes())
        self._codes["pool"].frombytes(pools[batch.identity].astype(np.int32).tobytes())
        self._request_ids.extend(batch.request_ids)
        self._reads_cache.extend(bytes([batch.reads_cache]) * len(batch))
        self._grafting.insert(namespaces, batch.symbols, batch.symbol_counts, self._ends)

    def _namespace_of(self, identity: Identity) -> int:
        namespace = self._namespaces.setdefault(identity.namespace, len(self._namespaces))
        if namespace == len(self._identities):
            self._identities.append(identity)
        return namespace

    def finish(self, provenance: dict[str, Any]) -> BuiltLineage:
        """Sorts by (time, file position, line), stable, and stamps; a missing time takes the previous row's."""
        logged_times = np.array(self._times.pop("time_ns"), np.int64)
        times, missing = _filled(logged_times)
        order = np.argsort(times, kind="stable")
        ends = EndsTable(_taken(self._ends.leaves, order), _taken(self._ends.prompt_nodes, order))
        self._ends = ends
        stamps = self.tree.stamp(ends)
        # every column gives its own room back before the next one takes new room
        counts = {name: _taken(self._counts.pop(name), order) for name in _COUNTS}
        counts |= {name: _taken(self._codes.pop(name), order) for name in _CODES}
        unit, known = counts["unit"], counts.pop("known_tokens")
        shared = np.minimum(stamps.shared_tokens * unit, known)
        shared_prompt = np.minimum(stamps.shared_prompt_tokens * unit, known)
        sorted_times = times[order]
        real = logged_times[order] != NO_TIME
        ties = int(((sorted_times[1:] == sorted_times[:-1]) & real[1:]).sum())
        columns: dict[str, Any] = {name: self._labels.pop(name).sorted(order) for name in _LABELS}
        columns["time_ns"] = sorted_times
        for name in _TIMES[1:]:
            columns[name] = _taken(self._times.pop(name), order)
        ids = np.empty(len(order), object)
        ids[:] = self._request_ids
        self._request_ids = []
        identities = tuple(self._identities[code] for code in counts["namespace"].tolist())
        namespaces, counts["namespace"] = self._namespaces_by_first_row(counts["namespace"])
        pools, counts["pool"] = _by_first_row(counts["pool"], tuple(self._pools))
        columns.update(counts)
        lineage = Lineage(
            **columns,
            request_id=ids[order],
            reads_cache=np.frombuffer(bytes(self._reads_cache), np.uint8).astype(np.bool_)[order],
            shared_tokens=shared,
            shared_prompt_tokens=np.minimum(shared_prompt, shared),
            parent_row=np.where(shared > 0, stamps.parent_row, UNKNOWN),
            namespaces=namespaces,
            pools=pools,
            provenance=provenance,
        )
        return BuiltLineage(lineage, self.tree, ends, ties, missing, order, identities)

    def _namespaces_by_first_row(self, codes: Int64) -> tuple[tuple[str, ...], Int64]:
        order, renumbered = _first_row_order(codes, len(self._identities))
        salts: dict[str, int] = {}
        hidden: dict[str, dict[str, int]] = {}
        labels = []
        for code in order:
            identity = self._identities[code]
            parts = [identity.base_model or "(no model)"]
            if identity.position:
                parts.append(f"position {identity.position}")
            if identity.adapter is not None:
                parts.append(f"adapter {identity.adapter}")
            if identity.salt is not None:
                # A salt is a secret: it is named by its order of appearance, which is also equal in every run.
                parts.append(f"salt {salts.setdefault(identity.salt, len(salts) + 1)}")
            for extra in identity.extra:
                field, _, value = extra.partition("=")
                numbers = hidden.setdefault(field, {})
                number = f"{field} {numbers.setdefault(value, len(numbers) + 1)}"
                parts.append(
                    number if field in ("extra_key", "media") or value.startswith("keyed:") else f"{field} {value}"
                )
            labels.append(" · ".join(parts))
        return tuple(labels), renumbered


def _known(value: int | None) -> int:
    return UNKNOWN if value is None else value


def _generated(request: LoggedRequest, prompt: Prompt) -> int:
    """O: tokens generated, where anything is known of them. T = P + O - 1 hides whether O was 0 or 1."""
    if prompt.output == "unknown":
        return UNKNOWN
    if prompt.sequence_tokens > prompt.prompt_tokens:
        return prompt.sequence_tokens - prompt.prompt_tokens + 1
    if request.output_token_ids is not None:
        return len(request.output_token_ids)
    counted = None if request.usage is None else request.usage.output_tokens
    # With n > 1 usage counts all choices; a row carries the mean of one, as its sequence_tokens do.
    return counted // prompt.n if counted is not None else int(bool(request.response))


def _filled(times: Int64) -> tuple[Int64, int]:
    """Missing times become the previous row's (in file order), the first ones the first known time, or 0."""
    missing = times == NO_TIME
    if not missing.any():
        return times, 0
    if missing.all():
        return np.zeros_like(times), int(missing.sum())
    last_known = np.maximum.accumulate(np.where(missing, -1, np.arange(len(times))))
    first_known = int(np.flatnonzero(~missing)[0])
    return times[np.where(last_known < 0, first_known, last_known)], int(missing.sum())


def _taken(values: array[int], order: Int64) -> Int64:
    return np.frombuffer(values, np.dtype(values.typecode))[order].astype(np.int64)


class _LabelColumn:
    """Labels by number, in order of arrival."""

    def __init__(self) -> None:
        self._codes = array("i")
        self._numbers: dict[str, int] = {}

    def append(self, label: str | None) -> None:
        self._codes.append(UNKNOWN if label is None else self._numbers.setdefault(label, len(self._numbers)))

    def extend(self, labels: Sequence[str | None] | str | None, count: int) -> None:
        """So many labels; a single one, or None, for all these rows."""
        if labels is None or isinstance(labels, str):
            self.append(labels)
            self._codes.extend(self._codes[-1:] * (count - 1))
        else:
            for label in labels:
                self.append(label)

    def sorted(self, order: Int64) -> Labels:
        """The column in another order; names in order of first appearance there."""
        names = tuple(self._numbers)
        codes = np.frombuffer(self._codes, np.int32)[order]
        seen = [code for code in dict.fromkeys(codes.tolist()) if code != UNKNOWN]
        new = np.full(len(names) + 1, UNKNOWN, np.int32)  # the last place stands for UNKNOWN, which is -1
        new[seen] = np.arange(len(seen), dtype=np.int32)
        return Labels(new[codes], tuple(names[code] for code in seen))


def _first_row_order(codes: Int64, count: int) -> tuple[list[int], Int64]:
    """Codes in order of first appearance, and the column renumbered so."""
    order = list(dict.fromkeys(codes.tolist()))
    new = np.full(count, UNKNOWN, np.int64)
    new[order] = np.arange(len(order))
    return order, new[codes]


def _by_first_row(codes: Int64, names: tuple[str, ...]) -> tuple[tuple[str, ...], Int64]:
    order, renumbered = _first_row_order(codes, len(names))
    return tuple(names[code] for code in order), renumbered
