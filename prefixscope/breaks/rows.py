"""The rows of a built lineage as the break finder reads them: lengths, tokens, bodies, and two rows side by side."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from prefixscope.breaks.agreement import first_difference
from prefixscope.breaks.bodies import BodyStore
from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.separation import Separation, scope_of, separation_of
from prefixscope.breaks.sides import Side, Texts
from prefixscope.index.builder import BuiltLineage
from prefixscope.index.lineage import OUTPUTS

__all__ = ["Rows"]


class Rows:
    """Columns as views of machine integers: read one by one, a numpy array is slow and a list of a million is large.

    `shared` and `parents` are as if media separated nothing; `reused` is what the engine sees. `scopes` number the
    namespaces without their media.
    """

    def __init__(self, built: BuiltLineage, store: BodyStore, kind: Callable[[int], str], texts: Texts) -> None:
        self.built = built
        self.store = store
        self.texts = texts
        self._kind = kind
        self.order = _column(built.order)
        self.separation: Separation | None = separation_of(built, built.identities)
        self.leaves = built.ends.leaves
        lineage = built.lineage
        self.prompt = _column(lineage.prompt_tokens)
        self.reused = _column(lineage.shared_tokens)
        shared, parents = lineage.shared_tokens, lineage.parent_row
        if self.separation is not None:
            shared, parents = self.separation.besides_media, self.separation.media_parent
        self.shared = _column(shared)
        self.parents = _column(parents)
        self.unit = _column(lineage.unit)
        self.namespaces = _column(lineage.namespace)
        self.sessions = _column(lineage.session.codes)
        numbers: dict[tuple[str, ...], int] = {}
        known: dict[int, tuple[int, bool]] = {}  # by object: most rows share one, and hashing it takes longer
        self.scopes, self.with_media = array("q"), array("b")
        for one in built.identities:
            if id(one) not in known:
                scope = numbers.setdefault(scope_of(one), len(numbers))
                known[id(one)] = scope, any(extra.startswith("media=") for extra in one.extra)
            scope, has_media = known[id(one)]
            self.scopes.append(scope)
            self.with_media.append(has_media)

    def kind(self, row: int) -> str:
        """What the row's prompt was made of: chat, text, tokens or hashes."""
        return self._kind(self.order[row])

    def first(self, row: int, other: int) -> int:
        """Tokens two rows share from the beginning, also of different namespaces."""
        if self.parents[row] == other:
            return int(self.shared[row])
        if self.namespaces[row] == self.namespaces[other]:
            return self.built.tree.common_prefix(self.leaves[row], self.leaves[other])
        return first_difference(self.tokens(row), self.tokens(other))

    def goes_on(self, row: int, previous: int, parent: int) -> bool:
        """Whether a row has turns of `previous` that `parent` has not: it goes on from that one, whatever differs."""
        new, old, other = (set(self.store.body(self.order[one]).messages) for one in (row, previous, parent))
        return bool((old - other) & new)

    def tokens(self, row: int) -> bytes:
        """The row's known sequence: prompt and generated tokens."""
        return self.built.tree.tokens_of(self.leaves[row])

    def side(self, row: int) -> Side:
        """The row as one side of a comparison."""
        output = OUTPUTS[int(self.built.lineage.output[row])]
        body = self.store.body(self.order[row])
        return Side(row, self.kind(row), self.tokens(row), self.prompt[row], body, output)

    def comparison(self, row: int, other: int) -> Comparison | None:
        """Two rows side by side; None where a body needed for it is no longer held."""
        new, old = self.side(row), self.side(other)
        for side in (new, old):
            if side.body is not None and side.kind == "chat":
                needed = (*side.body.messages, side.body.tools, side.body.options)
                if not self.store.holds(needed):
                    return None
        first = min(first_difference(new.prompt, old.tokens), new.prompt_tokens)
        return Comparison(new, old, first, self.store, self.texts)


def _column(values: npt.NDArray[Any]) -> memoryview:
    """The values of an array without a copy, read one by one as Python numbers."""
    return np.ascontiguousarray(values).data
