"""The shape of a prefix tree without its tokens: which nodes exist, how deep they end, and who stamped them.

A node stands for the tokens from its parent's depth up to its own. Two ways lead here: `index.tree` builds a shape
from token ids, and `Topology.of` rebuilds it from a lineage by grafting each row onto its parent's path.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixscope.index.lineage import UNKNOWN, Int64

if TYPE_CHECKING:
    from prefixscope.index.lineage import Lineage

__all__ = ["ROOT", "Shape", "Stamps", "Topology", "stamp"]

ROOT = 0
"""The node above all namespaces; its depth is 0 and nothing is shared through it."""


class Shape:
    """Growing arrays of nodes: `up[v]` is the node above v, `depth[v]` counts tokens (or symbols) from the root to its
    end."""

    def __init__(self) -> None:
        self.up = array("i", [ROOT])
        self.depth = array("q", [0])

    def add(self, above: int, depth: int) -> int:
        """A new node that ends at `depth` below `above`."""
        self.up.append(above)
        self.depth.append(depth)
        return len(self.up) - 1

    def split(self, node: int, depth: int) -> int:
        """A new node at `depth` on the edge that leads to `node`; `node` keeps its number and its end."""
        middle = self.add(self.up[node], depth)
        self.up[node] = middle
        return middle

    def node_at(self, leaf: int, depth: int) -> int:
        """The node that ends exactly at `depth` on the path to `leaf`, made by a split where there is none.

        >>> shape = Shape()
        >>> leaf = shape.add(ROOT, 10)
        >>> middle = shape.node_at(leaf, 4)
        >>> shape.depth[middle], shape.up[leaf] == middle, shape.node_at(leaf, 4) == middle
        (4, True, True)
        """
        up, depths = self.up, self.depth
        node = leaf
        assert depths[node] >= depth
        while depth < depths[node]:
            above = up[node]
            if depths[above] < depth:
                return self.split(node, depth)
            node = above
        return node


@dataclass(frozen=True, slots=True)
class Stamps:
    """What stamping gives for each visited row, in visiting order; `parent_row` counts visited rows from 0."""

    shared_tokens: Int64
    shared_prompt_tokens: Int64
    parent_row: Int64


def stamp(shape: Shape, leaves: Iterable[int], prompt_nodes: Iterable[int], is_root: set[int]) -> Stamps:
    """Walks each leaf to its root in the order given; the first node stamped before tells what is shared with whom.

    `is_root` are the nodes of depth 0 (one per namespace). Depths are in the shape's own unit.
    """
    up, depth = shape.up, shape.depth
    last = array("i", [UNKNOWN]) * len(up)
    by_prompt = bytearray(len(up))
    shared, shared_prompt, parents = array("q"), array("q"), array("q")
    for row, (leaf, prompt_node) in enumerate(zip(leaves, prompt_nodes, strict=True)):
        node = leaf
        while node not in is_root and last[node] < 0:
            node = up[node]
        shared.append(depth[node])
        parents.append(last[node] if depth[node] else UNKNOWN)
        # A node stamped by a prompt is also stamped by its sequence, so the search goes on from there.
        while node not in is_root and not by_prompt[node]:
            node = up[node]
        shared_prompt.append(depth[node])
        node = leaf
        while node not in is_root:
            last[node] = row
            node = up[node]
        node = prompt_node
        while node not in is_root and not by_prompt[node]:
            by_prompt[node] = 1
            node = up[node]
    return Stamps(np.array(shared, np.int64), np.array(shared_prompt, np.int64), np.array(parents, np.int64))


class Topology(Shape):
    """A lineage's prefix tree, in tokens: `leaf[row]` ends the row's sequence, `prompt_node[row]` its prompt.

    Rows of a hash trace are known in symbols of `unit` tokens: their nodes lie at whole symbols, and `limit[row]` says
    how many tokens of the row can be shared at most (a partly filled last symbol counts its own tokens).
    """

    def __init__(self) -> None:
        super().__init__()
        self.leaf = array("i")
        self.prompt_node = array("i")
        self.limit = array("q")
        self.roots: set[int] = {ROOT}

    @classmethod
    def of(cls, lineage: Lineage) -> Topology:
        """Grafts every row onto the path of its parent, at the depth they share."""
        tree = cls()
        root_of: dict[int, int] = {}
        columns = zip(
            lineage.namespace.tolist(),
            lineage.parent_row.tolist(),
            lineage.shared_tokens.tolist(),
            lineage.prompt_tokens.tolist(),
            lineage.sequence_tokens.tolist(),
            lineage.unit.tolist(),
            strict=True,
        )
        for namespace, parent, shared, prompt_tokens, sequence_tokens, unit in columns:
            tree.limit.append(sequence_tokens if unit == 1 else prompt_tokens)
            if unit > 1:
                shared, prompt_tokens, sequence_tokens = (
                    -(-tokens // unit) * unit for tokens in (shared, prompt_tokens, sequence_tokens)
                )
            if parent >= 0:
                node = tree.node_at(tree.leaf[parent], shared)
            else:
                if namespace not in root_of:
                    root_of[namespace] = tree.add(ROOT, 0)
                    tree.roots.add(root_of[namespace])
                node = root_of[namespace]
            if sequence_tokens > shared:
                node = tree.add(node, sequence_tokens)
            tree.leaf.append(node)
            tree.prompt_node.append(tree.node_at(node, prompt_tokens))
        return tree

    def stamp(self, rows: Int64) -> Stamps:
        """The lineage of a subset of rows (ascending): shared tokens and parents among these rows only."""
        picked = rows.tolist()
        stamps = stamp(self, (self.leaf[r] for r in picked), (self.prompt_node[r] for r in picked), self.roots)
        limit = np.array([self.limit[r] for r in picked], np.int64)
        return Stamps(
            np.minimum(stamps.shared_tokens, limit), np.minimum(stamps.shared_prompt_tokens, limit), stamps.parent_row
        )

    def common_prefix(self, a: int, b: int) -> int:
        """Tokens that rows a and b share: the depth of their lowest common ancestor."""
        up, depth = self.up, self.depth
        left, right = self.leaf[a], self.leaf[b]
        while left != right:
            if left in self.roots and right in self.roots:
                return 0
            # Going up from the deeper one never passes the common ancestor; at equal depth both differ, so both may go.
            if depth[left] >= depth[right] and left not in self.roots:
                left = up[left]
            else:
                right = up[right]
        return min(depth[left], self.limit[a], self.limit[b])
