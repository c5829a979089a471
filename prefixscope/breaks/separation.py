"""What rows would share if the engine kept nothing apart: the price of adapters, salts and other namespaces.

Sequences of a log with several namespaces are inserted again, under one root per base model (and where several
models read the same ids, under one root per tokenizer). Only then is it known that the same text was there before,
in another namespace. Media are no such namespace of the user's: rows that differ in their images alone are compared
as if they did not, and the image is found as what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prefixscope.index.builder import BuiltLineage
from prefixscope.index.lineage import UNKNOWN, Int64
from prefixscope.index.tree import Ends, PrefixTree
from prefixscope.records import Identity

__all__ = ["Separated", "Separation", "scope_of", "separation_of"]

SIGNIFICANT = 16
"""Tokens that another namespace must have beyond the own one; less is how all prompts begin. Half of a short prompt
is enough."""


@dataclass(frozen=True, slots=True)
class Separated:
    """Why a row could not share what an earlier one had."""

    cause: str
    candidate: int
    shared: int


@dataclass(frozen=True, slots=True)
class Separation:
    """Per row: tokens shared with any earlier row of the same base model, of the same tokenizer, or of the same
    namespace but for its media; and with whom."""

    within_base: Int64
    base_parent: Int64
    anywhere: Int64
    any_parent: Int64
    besides_media: Int64
    media_parent: Int64
    identities: Sequence[Identity]

    def of(self, row: int, shared: int, prompt_tokens: int) -> Separated | None:
        """What kept a row from sharing more than `shared`; None where nothing did."""
        base = min(int(self.within_base[row]), prompt_tokens)
        wide = min(int(self.anywhere[row]), prompt_tokens)
        if _significant(base - shared, prompt_tokens) and base >= wide - SIGNIFICANT:
            parent = int(self.base_parent[row])
            return Separated(_cause(self.identities[row], self.identities[parent]), parent, base)
        if _significant(wide - max(shared, base), prompt_tokens):
            return Separated("model", int(self.any_parent[row]), wide)
        if _significant(base - shared, prompt_tokens):
            parent = int(self.base_parent[row])
            return Separated(_cause(self.identities[row], self.identities[parent]), parent, base)
        return None


def _significant(gain: int, prompt_tokens: int) -> bool:
    return gain >= SIGNIFICANT or (gain > 0 and 2 * gain >= prompt_tokens)


def _cause(new: Identity, old: Identity) -> str:
    if new.base_model != old.base_model or new.position != old.position:
        return "model"
    return "adapter" if new.adapter != old.adapter else "cache_salt"


def separation_of(built: BuiltLineage, identities: Sequence[Identity]) -> Separation | None:
    """The second and third view; None where all rows share one namespace."""
    lineage = built.lineage
    if len(np.unique(lineage.namespace)) < 2:
        return None
    base = _stamped(built, [(one.base_model, *_alphabet(one)) for one in identities])
    wide = base
    if len(np.unique(lineage.pool)) > 1 or len({one.position for one in identities}) > 1:
        wide = _stamped(built, [_alphabet(one) for one in identities])
    scope = (lineage.shared_tokens, lineage.parent_row)
    if any(one.startswith("media=") for identity in identities for one in identity.extra):
        scope = _stamped(built, [scope_of(one) for one in identities])
    return Separation(*base, *wide, *scope, identities)


def scope_of(identity: Identity) -> tuple[str, ...]:
    """The namespace without its media: rows of one scope are compared with each other.

    >>> scope_of(Identity("m", extra=("media=1",))) == scope_of(Identity("m"))
    True
    """
    extra = tuple(one for one in identity.extra if not one.startswith("media="))
    return (identity.tokenizer or "", *replace(identity, extra=extra).namespace)


def _alphabet(identity: Identity) -> tuple[str, ...]:
    """What must be equal before two token ids mean the same."""
    return (identity.tokenizer or "", *(one for one in identity.extra if one.startswith(("unit=", "scope="))))


def _stamped(built: BuiltLineage, roots: Sequence[tuple[str, ...]]) -> tuple[Int64, Int64]:
    lineage = built.lineage
    tree = PrefixTree()
    ends: list[Ends] = []
    for row, root in enumerate(roots):
        tokens = built.tree.tokens_of(built.ends[row].leaf)
        ends.append(
            tree.insert(root, tokens, min(len(tokens) // 4, int(-(-lineage.prompt_tokens[row] // lineage.unit[row]))))
        )
    stamps = tree.stamp(ends)
    shared = np.minimum(stamps.shared_tokens * lineage.unit, lineage.sequence_tokens)
    # what a row shares in its own namespace is exact; a hash row's last, partly filled symbol is not counted here
    shared = np.maximum(shared, lineage.shared_tokens)
    return shared, np.where(shared > 0, stamps.parent_row, UNKNOWN)
