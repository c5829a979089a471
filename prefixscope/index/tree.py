"""The prefix tree over token ids: every request's tokens are inserted once, in any order; lineage comes afterwards.

An edge owns its tokens as bytes and is compared with `startswith` (a memcmp), so inserting costs about one pass over
the tokens, and memory is 4 bytes per *unique* token plus a node per branching point and end.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from prefixscope.index.topology import ROOT, Shape, Stamps, stamp

__all__ = ["Ends", "EndsTable", "PrefixTree", "common_prefix_bytes"]

SYMBOL = 4
"""Bytes per symbol: ids are little-endian uint32."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Where an inserted sequence ends: the node of its last token and the node of its last prompt token."""

    leaf: int
    prompt_node: int


class EndsTable(Sequence[Ends]):
    """The ends of many sequences in a few bytes each.

    >>> table = EndsTable()
    >>> table.append(Ends(7, 5))
    >>> table[0], len(table)
    (Ends(leaf=7, prompt_node=5), 1)
    """

    def __init__(self, leaves: Iterable[int] = (), prompt_nodes: Iterable[int] = ()) -> None:
        self.leaves = array("i", leaves)
        self.prompt_nodes = array("i", prompt_nodes)

    def append(self, ends: Ends) -> None:
        """Adds one."""
        self.leaves.append(ends.leaf)
        self.prompt_nodes.append(ends.prompt_node)

    def __len__(self) -> int:
        return len(self.leaves)

    @overload
    def __getitem__(self, row: int) -> Ends: ...

    @overload
    def __getitem__(self, row: slice) -> EndsTable: ...

    def __getitem__(self, row: int | slice) -> Ends | EndsTable:
        if isinstance(row, slice):
            return EndsTable(self.leaves[row], self.prompt_nodes[row])
        return Ends(self.leaves[row], self.prompt_nodes[row])


class PrefixTree(Shape):
    """A radix tree per namespace. Depths count symbols. Nodes keep their number when edges are split.

    >>> tree = PrefixTree()
    >>> a = tree.insert("base", array("I", [1, 2, 3, 4]).tobytes())
    >>> b = tree.insert("base", array("I", [1, 2, 9]).tobytes())
    >>> tree.common_prefix(a.leaf, b.leaf)
    2
    """

    def __init__(self) -> None:
        super().__init__()
        self._edge: list[bytes] = [b""]
        # One table for all children: (node, first symbol) packed into an int; much smaller than a dict per node.
        self._child: dict[int, int] = {}
        self._root_of: dict[object, int] = {}

    @property
    def unique_symbols(self) -> int:
        """Symbols stored: each shared stretch counts once."""
        return sum(map(len, self._edge)) // SYMBOL

    def root_of(self, namespace: object) -> int:
        """The root under which a namespace's sequences hang."""
        root = self._root_of.get(namespace)
        if root is None:
            root = self._root_of[namespace] = self.add(ROOT, 0)
            self._edge.append(b"")
        return root

    def has(self, namespace: object) -> bool:
        """Whether the namespace has any sequence."""
        return namespace in self._root_of

    def insert(self, namespace: object, tokens: bytes, prompt_symbols: int | None = None) -> Ends:
        """Adds a sequence of uint32 symbols; `prompt_symbols` of them are the prompt (default: all)."""
        leaf = self._descend(self.root_of(namespace), tokens)
        symbols = len(tokens) // SYMBOL
        if prompt_symbols is None or prompt_symbols >= symbols:
            return Ends(leaf, leaf)
        return Ends(leaf, self.node_at(leaf, prompt_symbols))

    def graft(self, above: int, shared: int, tail: bytes) -> int:
        """Adds a sequence that is known to share exactly its first `shared` symbols with what is in the tree, where it
        shares them with the sequence that ends at `above` (the namespace's root: none); `tail` is the rest of it.

        The same as `insert` without a walk from the root. Gives the node at which it ends.
        """
        node = above if self.depth[above] == shared else self.node_at(above, shared)
        if not tail:
            return node
        child = self._child[node << 32 | int.from_bytes(tail[:SYMBOL], "little")] = self.add(
            node, shared + len(tail) // SYMBOL
        )
        self._edge.append(tail)
        return child

    def tokens_below(self, root: int) -> bytes:
        """All edges below a node, one after another, in no order."""
        children: dict[int, list[int]] = {}
        for node, above in enumerate(self.up):
            if node != ROOT:
                children.setdefault(above, []).append(node)
        edges, pending = [], [root]
        while pending:
            node = pending.pop()
            edges.append(self._edge[node])
            pending.extend(children.get(node, ()))
        return b"".join(edges)

    def _descend(self, node: int, tokens: bytes) -> int:
        child_of, edges = self._child, self._edge
        at, end = 0, len(tokens)
        while at < end:
            key = node << 32 | int.from_bytes(tokens[at : at + SYMBOL], "little")
            child = child_of.get(key)
            if child is None:
                child = child_of[key] = self.add(node, end // SYMBOL)
                edges.append(tokens[at:])
                return child
            edge = edges[child]
            if tokens.startswith(edge, at):
                node = child
                at += len(edge)
                continue
            shared = common_prefix_bytes(edge, tokens, at)
            node = self.split(child, (at + shared) // SYMBOL)
            at += shared
        return node

    def split(self, node: int, depth: int) -> int:
        """As `Shape.split`, and the edge's tokens are divided between the two nodes."""
        above = self.up[node]
        middle = super().split(node, depth)
        edge = self._edge[node]
        cut = (depth - self.depth[above]) * SYMBOL
        assert 0 < cut < len(edge)
        self._edge.append(edge[:cut])
        self._edge[node] = edge[cut:]
        self._child[above << 32 | int.from_bytes(edge[:SYMBOL], "little")] = middle
        self._child[middle << 32 | int.from_bytes(edge[cut : cut + SYMBOL], "little")] = node
        return middle

    def stamp(self, ends: Sequence[Ends]) -> Stamps:
        """The lineage of the sequences in the order given (time order), in symbols."""
        roots = set(self._root_of.values())
        if isinstance(ends, EndsTable):
            return stamp(self, ends.leaves, ends.prompt_nodes, roots)
        return stamp(self, (end.leaf for end in ends), (end.prompt_node for end in ends), roots)

    def tokens_of(self, node: int) -> bytes:
        """The symbols from the root to the end of `node`."""
        edges = []
        while node != ROOT:
            edges.append(self._edge[node])
            node = self.up[node]
        return b"".join(reversed(edges))

    def common_prefix(self, leaf: int, other: int) -> int:
        """Symbols two nodes have in common from the root: the depth of their lowest common ancestor."""
        path = set()
        while leaf != ROOT:
            path.add(leaf)
            leaf = self.up[leaf]
        while other != ROOT and other not in path:
            other = self.up[other]
        return self.depth[other]


def common_prefix_bytes(edge: bytes, tokens: bytes, at: int) -> int:
    """Bytes, in whole symbols, that `edge` and `tokens[at:]` have in common.

    Doubling steps, then halving: about log2 memcmps, where a loop over symbols would look at each.

    >>> common_prefix_bytes(b"aaaabbbbcccc", b"zzzzaaaabbbbdddd", 4)
    8
    """
    limit = min(len(edge), len(tokens) - at)
    good, step = 0, 64
    while good + step <= limit and tokens.startswith(edge[good : good + step], at + good):
        good += step
        step *= 2
    while step >= SYMBOL:
        if good + step <= limit and tokens.startswith(edge[good : good + step], at + good):
            good += step
        step //= 2
    return good
