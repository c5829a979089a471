"""The prefixes many requests share, and the work each saves beyond the prefix that encloses it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prefixscope.index.lineage import Int64, Lineage, Mask
from prefixscope.index.topology import Topology

__all__ = ["SharedPrefix", "shared_prefixes"]


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """The first `tokens` tokens of `requests` prompts, `enclosing_tokens` of which lie in the enclosing prefix.

    `saved_tokens` is the reuse between those two depths over all counted requests; summed over every prefix it is
    the log's reusable tokens. `row` is one request that starts with it.
    """

    tokens: int
    enclosing_tokens: int
    requests: int
    saved_tokens: int
    namespace: int
    row: int


def shared_prefixes(lineage: Lineage, counted: Mask, limit: int) -> tuple[SharedPrefix, ...]:
    """The `limit` prefixes that save most, by saved tokens, then the shorter and the earlier one.

    >>> rows = Lineage.from_lengths([50, 60, 60], [0, 40, 40], [-1, 0, 1])
    >>> [(p.tokens, p.requests, p.saved_tokens) for p in shared_prefixes(rows, rows.reads_cache, 5)]
    [(40, 3, 80)]
    """
    tree = Topology.of(lineage)
    up = np.array(tree.up, np.int64)
    depth = np.array(tree.depth, np.int64)
    first_row, reused, held = _visits(tree, counted)
    # Children lie deeper than their parents, so one pass from the deepest node up sums whole subtrees.
    order = np.argsort(-depth, kind="stable")
    for node in order.tolist():
        above = up[node]
        if above != node:
            reused[above] += reused[node]
            held[above] += held[node]
            if first_row[node] >= 0 and (first_row[above] < 0 or first_row[node] < first_row[above]):
                first_row[above] = first_row[node]
    saved = reused * (depth - depth[up])
    picked = [node for node in np.lexsort((first_row, depth, -saved))[:limit].tolist() if saved[node] > 0]
    return tuple(
        SharedPrefix(
            tokens=int(depth[node]),
            enclosing_tokens=int(depth[up[node]]),
            requests=int(held[node]),
            saved_tokens=int(saved[node]),
            namespace=int(lineage.namespace[first_row[node]]),
            row=int(first_row[node]),
        )
        for node in picked
    )


def _visits(tree: Topology, counted: Mask) -> tuple[Int64, Int64, Int64]:
    """Per node: the first row whose prompt or sequence ends there; counted prompts whose reuse ends there; counted
    prompts that end there."""
    nodes = len(tree.up)
    first_row = np.full(nodes, -1, np.int64)
    reused = np.zeros(nodes, np.int64)
    held = np.zeros(nodes, np.int64)
    visited = bytearray(nodes)
    up = tree.up
    for row, (leaf, prompt_node) in enumerate(zip(tree.leaf, tree.prompt_node, strict=True)):
        node = prompt_node
        while node not in tree.roots and not visited[node]:
            node = up[node]
        if counted[row]:
            held[prompt_node] += 1
            reused[node] += 1
        node = leaf
        while node not in tree.roots and not visited[node]:
            visited[node] = 1
            node = up[node]
        if first_row[leaf] < 0:
            first_row[leaf] = row
        if first_row[prompt_node] < 0:
            first_row[prompt_node] = row
    return first_row, reused, held
