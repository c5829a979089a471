"""The rows of a built lineage as the break finder reads them: lengths, tokens, bodies, and two rows side by side."""

from __future__ import annotations

from collections.abc import Callable

from prefixscope.breaks.agreement import first_difference
from prefixscope.breaks.bodies import BodyStore
from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.separation import Separation, scope_of, separation_of
from prefixscope.breaks.sides import Side, Texts
from prefixscope.index.builder import BuiltLineage
from prefixscope.index.lineage import OUTPUTS

__all__ = ["Rows"]


class Rows:
    """Columns as lists, for they are read one by one.

    `shared` and `parents` are as if media separated nothing; `reused` is what the engine sees. `scopes` number the
    namespaces without their media.
    """

    def __init__(self, built: BuiltLineage, store: BodyStore, kind: Callable[[int], str], texts: Texts) -> None:
        self.built = built
        self.store = store
        self.texts = texts
        self._kind = kind
        self.order = built.order.tolist()
        self.separation: Separation | None = separation_of(built, built.identities)
        lineage = built.lineage
        self.prompt = lineage.prompt_tokens.tolist()
        self.reused = lineage.shared_tokens.tolist()
        shared, parents = lineage.shared_tokens, lineage.parent_row
        if self.separation is not None:
            shared, parents = self.separation.besides_media, self.separation.media_parent
        self.shared = shared.tolist()
        self.parents = parents.tolist()
        self.unit = lineage.unit.tolist()
        self.namespaces = lineage.namespace.tolist()
        scopes: dict[tuple[str, ...], int] = {}
        self.scopes = [scopes.setdefault(scope_of(one), len(scopes)) for one in built.identities]
        self.with_media = [any(extra.startswith("media=") for extra in one.extra) for one in built.identities]
        self.sessions = lineage.session.codes.tolist()

    def kind(self, row: int) -> str:
        """What the row's prompt was made of: chat, text, tokens or hashes."""
        return self._kind(self.order[row])

    def first(self, row: int, other: int) -> int:
        """Tokens two rows share from the beginning, also of different namespaces."""
        if self.parents[row] == other:
            return int(self.shared[row])
        if self.namespaces[row] == self.namespaces[other]:
            ends = self.built.ends
            return self.built.tree.common_prefix(ends[row].leaf, ends[other].leaf)
        return first_difference(self.tokens(row), self.tokens(other))

    def goes_on(self, row: int, previous: int, parent: int) -> bool:
        """Whether a row has turns of `previous` that `parent` has not: it goes on from that one, whatever differs."""
        new, old, other = (set(self.store.body(self.order[one]).messages) for one in (row, previous, parent))
        return bool((old - other) & new)

    def tokens(self, row: int) -> bytes:
        """The row's known sequence: prompt and generated tokens."""
        return self.built.tree.tokens_of(self.built.ends[row].leaf)

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
