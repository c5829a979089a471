"""Builds a lineage: requests come in file order, the tree grows, and rows leave in time order with what they share."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np

from prefixscope.index.lineage import NO_TIME, OUTPUTS, UNKNOWN, Int64, Labels, Lineage
from prefixscope.index.tree import Ends, PrefixTree
from prefixscope.records import Identity, LoggedRequest, Prompt

__all__ = ["BuiltLineage", "LineageBuilder"]

_COUNTS = (
    "line", "namespace", "pool", "unit", "tier", "output", "n", "status", "prompt_tokens", "sequence_tokens",
    "output_tokens", "measured_prompt_tokens", "measured_cached_tokens", "known_tokens",
)  # fmt: skip
_TIMES = ("time_ns", "first_token_ns", "finished_ns")
_LABELS = ("file", "model", "adapter", "session", "tenant", "replica")


@dataclass(frozen=True, slots=True)
class BuiltLineage:
    """The table, its tree and where each row's sequence ends in it; `ties` counts rows at the same instant as the row
    before, `missing_times` those that took the previous row's time. `order` gives the position in which each row was
    added, `identities` its identity."""

    lineage: Lineage
    tree: PrefixTree
    ends: tuple[Ends, ...]
    ties: int
    missing_times: int
    order: Int64
    identities: tuple[Identity, ...]


class LineageBuilder:
    """Collects one row per prompt. `finish` may be called once."""

    def __init__(self) -> None:
        self.tree = PrefixTree()
        self._ends: list[Ends] = []
        self._counts = {name: array("q") for name in _COUNTS}
        self._times = {name: array("q") for name in _TIMES}
        self._labels: dict[str, list[str | None]] = {name: [] for name in _LABELS}
        self._request_ids: list[str | None] = []
        self._reads_cache = bytearray()
        self._namespaces: dict[tuple[str, ...], int] = {}
        self._identities: list[Identity] = []
        self._pools: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, request: LoggedRequest, prompt: Prompt) -> None:
        """One row; the prompt's tokens go into the tree, its text is not kept."""
        namespace = self._namespace_of(prompt.identity)
        symbols = len(prompt.tokens) // 4
        prompt_symbols = min(symbols, -(-prompt.prompt_tokens // prompt.unit))
        self._ends.append(self.tree.insert(namespace, prompt.tokens, prompt_symbols))
        usage = request.usage
        # Usage of a call with several prompts counts them together: it says nothing of one of them.
        own = usage if usage is not None and request.prompts_in_call == 1 else None
        row = {
            "line": request.source.line,
            "namespace": namespace,
            "pool": self._pools.setdefault(prompt.identity.pool, len(self._pools)),
            "unit": prompt.unit,
            "tier": request.tier,
            "output": OUTPUTS.index(prompt.output),
            "n": prompt.n,
            "status": _known(request.status),
            "prompt_tokens": prompt.prompt_tokens,
            "sequence_tokens": prompt.sequence_tokens,
            "output_tokens": _generated(request, prompt),
            "measured_prompt_tokens": _known(None if own is None else own.prompt_tokens),
            "measured_cached_tokens": _known(None if own is None else own.cached_tokens),
            "known_tokens": symbols if prompt.unit == 1 else prompt.prompt_tokens,
        }
        for name, value in row.items():
            self._counts[name].append(value)
        for name in _TIMES:
            value = getattr(request, name)
            self._times[name].append(NO_TIME if value is None else value)
        labels = {
            "file": request.source.file,
            "model": request.model,
            "adapter": prompt.identity.adapter,
            "session": request.session_id,
            "tenant": request.tenant,
            "replica": request.replica,
        }
        for name, label in labels.items():
            self._labels[name].append(label)
        self._request_ids.append(request.request_id)
        self._reads_cache.append(prompt.reads_cache)

    def _namespace_of(self, identity: Identity) -> int:
        namespace = self._namespaces.setdefault(identity.namespace, len(self._namespaces))
        if namespace == len(self._identities):
            self._identities.append(identity)
        return namespace

    def finish(self, provenance: dict[str, Any]) -> BuiltLineage:
        """Sorts by (time, file position, line), stable, and stamps; a missing time takes the previous row's."""
        times, missing = _filled(np.array(self._times["time_ns"], np.int64))
        order = np.argsort(times, kind="stable")
        ends = tuple(self._ends[row] for row in order.tolist())
        counts = {name: np.array(values, np.int64)[order] for name, values in self._counts.items()}
        stamps = self.tree.stamp(ends)
        unit, known = counts["unit"], counts.pop("known_tokens")
        shared = np.minimum(stamps.shared_tokens * unit, known)
        shared_prompt = np.minimum(stamps.shared_prompt_tokens * unit, known)
        sorted_times = times[order]
        real = np.array(self._times["time_ns"], np.int64)[order] != NO_TIME
        ties = int(((sorted_times[1:] == sorted_times[:-1]) & real[1:]).sum())
        columns: dict[str, Any] = {name: _labels(values, order) for name, values in self._labels.items()}
        columns["time_ns"] = sorted_times
        for name in _TIMES[1:]:
            columns[name] = np.array(self._times[name], np.int64)[order]
        ids = np.empty(len(order), object)
        ids[:] = self._request_ids
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
                parts.append(number if field in ("extra_key", "media") else f"{field} {value}")
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


def _labels(values: list[str | None], order: Int64) -> Labels:
    return Labels.of(values[row] for row in order.tolist())


def _first_row_order(codes: Int64, count: int) -> tuple[list[int], Int64]:
    """Codes in order of first appearance, and the column renumbered so."""
    order = list(dict.fromkeys(codes.tolist()))
    new = np.full(count, UNKNOWN, np.int64)
    new[order] = np.arange(len(order))
    return order, new[codes]


def _by_first_row(codes: Int64, names: tuple[str, ...]) -> tuple[tuple[str, ...], Int64]:
    order, renumbered = _first_row_order(codes, len(names))
    return tuple(names[code] for code in order), renumbered
