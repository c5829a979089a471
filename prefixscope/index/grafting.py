"""Many sequences at once into a prefix tree: those whose place is known are grafted on, the others inserted as ever."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prefixscope.index.known_symbols import KnownSymbols
from prefixscope.index.lineage import Int64
from prefixscope.index.tree import EndsTable, PrefixTree

__all__ = ["Grafting"]


class Grafting:
    """Keeps what was seen in the namespaces that batches went into; until the first batch it costs nothing."""

    def __init__(self, tree: PrefixTree) -> None:
        self._tree = tree
        self._known = KnownSymbols()
        self._namespaces: set[int] = set()

    def note(self, row: int, namespace: int, tokens: bytes) -> None:
        """A sequence that goes into the tree by itself."""
        if namespace in self._namespaces:
            self._known.note(row, namespace, tokens)

    def insert(self, namespaces: Int64, symbols: npt.NDArray[np.uint32], counts: Int64, ends: EndsTable) -> None:
        """Rows of `counts` symbols each, all of the prompt; where they end is added to `ends`."""
        tree, first = self._tree, len(ends)
        for namespace in np.unique(namespaces).tolist():
            if namespace not in self._namespaces:
                self._namespaces.add(namespace)
                if tree.has(namespace):
                    self._known.note_earlier(tree.tokens_below(tree.root_of(namespace)))
        places = self._known.place(first, namespaces, symbols, counts)
        tokens = symbols.astype("<u4").tobytes()
        stops = 4 * np.cumsum(counts)
        rows = zip(
            namespaces.tolist(), (stops - 4 * counts).tolist(), stops.tolist(), places.known.tolist(),
            places.shared.tolist(), places.with_row.tolist(), strict=True,
        )  # fmt: skip
        leaves, root_of, graft = ends.leaves, tree.root_of, tree.graft
        for namespace, start, stop, is_known, shared, with_row in rows:
            if is_known:
                above = leaves[with_row] if shared else root_of(namespace)
                leaves.append(graft(above, shared, tokens[start + 4 * shared : stop]))
            else:
                leaves.append(tree.insert(namespace, tokens[start:stop]).leaf)
        ends.prompt_nodes.extend(leaves[first:])
