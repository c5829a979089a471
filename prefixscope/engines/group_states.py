"""Which KV blocks or states of one group of layers are kept, over the prefix tree.

A block is named by the tokens up to its end, so by a place in the tree: the node whose edge covers that depth, and the
depth. Rows that differ further on share it; rows that differ before it do not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prefixscope.index.topology import Topology

__all__ = ["GroupStates", "Path", "paths"]


@dataclass(frozen=True, slots=True)
class Path:
    """The nodes from below the root to a row's leaf, and the depth at which each ends (ascending)."""

    nodes: tuple[int, ...]
    depths: tuple[int, ...]


def paths(tree: Topology) -> Iterator[Path]:
    """The path of every row in row order; the tree must be complete, as later splits would rename places."""
    for leaf in tree.leaf:
        nodes: list[int] = []
        node = leaf
        while node not in tree.roots:
            nodes.append(node)
            node = tree.up[node]
        nodes.reverse()
        yield Path(tuple(nodes), tuple(tree.depth[node] for node in nodes))


class GroupStates:
    """The kept blocks of one group: everything up to `reach` (thinned by the caller's own pattern), and single marks.

    `ahead`: a block can be found only by rows that also share this many tokens after it, so it is named by the place
    that many tokens further on.
    """

    __slots__ = ("_ahead", "_marks", "_reach")

    def __init__(self, ahead: int = 0) -> None:
        self._ahead = ahead
        self._reach: dict[int, int] = {}
        self._marks: dict[int, list[int]] = {}

    def extend(self, path: Path, tokens: int) -> None:
        """Every block that ends at or before `tokens` on this path was computed and offered to the cache."""
        named = min(tokens + self._ahead, path.depths[-1]) if path.depths else 0
        reach = self._reach
        above = 0
        for node, depth in zip(path.nodes, path.depths, strict=True):
            if above >= named:
                break
            if reach.get(node, 0) < (covered := min(named, depth)):
                reach[node] = covered
            above = depth

    def reach(self, path: Path) -> int:
        """How many leading tokens of this path some row computed (never less than 0)."""
        covered = 0
        for node, depth in zip(path.nodes, path.depths, strict=True):
            if (here := self._reach.get(node, 0)) == 0:
                break
            covered = here
            if here < depth:
                break
        return max(covered - self._ahead, 0)

    def mark(self, path: Path, ends: Iterable[int]) -> None:
        """The blocks or states that end at these tokens (ascending) are kept, whatever the pattern says."""
        depths, ahead = path.depths, self._ahead
        place = -1
        for end in ends:
            named = end + ahead
            if end <= 0 or not depths or named > depths[-1]:
                continue
            if place < 0 or named > depths[place]:
                place = bisect_left(depths, named)
                kept = self._marks.setdefault(path.nodes[place], [])
            if not kept or end > kept[-1]:
                kept.append(end)
            elif kept[(at := bisect_left(kept, end))] != end:
                kept.insert(at, end)

    def marked(self, path: Path, limit: int) -> Iterator[int]:
        """The ends of the single marks on this path, at or below `limit`, from the deepest up."""
        first = min(bisect_left(path.depths, limit + self._ahead), len(path.nodes) - 1)
        for index in range(first, -1, -1):
            kept = self._marks.get(path.nodes[index])
            if kept:
                yield from reversed(kept[: bisect_right(kept, limit)])
