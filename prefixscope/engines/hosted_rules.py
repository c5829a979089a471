"""Rules of hosted APIs, which tell how long they keep what: lifetime, minimum, increment, and where hits end."""

from __future__ import annotations

import numpy as np

from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import Int64, Lineage
from prefixscope.index.topology import Topology

__all__ = ["increments", "whole_units"]

SECOND = 1_000_000_000


def increments(lineage: Lineage, profile: EngineProfile) -> Int64:
    """The longest prefix used within the lifetime, in steps of U, none below the minimum.

    Every request that passes a prefix renews its life. At least one prompt token is taken to be computed.
    """
    tree = Topology.of(lineage)
    last_used: dict[int, int] = {}
    life = _life_ns(profile)
    found = np.zeros(len(lineage), np.int64)
    for row, now in enumerate(lineage.time_ns.tolist()):
        start = tree.leaf[row] if profile.stores_output else tree.prompt_node[row]
        node = start
        while node not in tree.roots and not _alive(last_used.get(node), now, life):
            node = tree.up[node]
        found[row] = tree.depth[node]
        node = start
        while node not in tree.roots:
            last_used[node] = now
            node = tree.up[node]
    found = np.minimum(found, lineage.prompt_tokens - 1)
    return _granted(lineage, profile, found // profile.match_unit * profile.match_unit)


def whole_units(lineage: Lineage, profile: EngineProfile) -> Int64:
    """Hits end only where a unit was stored: the end of an earlier prompt, of its answer, or a fork seen before.

    A fork is stored when the second request leaves a shared prefix there, so the third one finds it
    (`profile.stores_forks`). A unit's life is renewed when it is written again or hit.
    """
    tree = Topology.of(lineage)
    life = _life_ns(profile)
    units: dict[int, int] = {}
    passed: dict[int, int] = {}
    found = np.zeros(len(lineage), np.int64)
    for row, now in enumerate(lineage.time_ns.tolist()):
        prompt = tree.prompt_node[row]
        node = prompt
        while node not in tree.roots and not _alive(units.get(node), now, life):
            node = tree.up[node]
        if node not in tree.roots:
            units[node] = now
            found[row] = tree.depth[node]
        fork = prompt
        while fork not in tree.roots and not _alive(passed.get(fork), now, life):
            fork = tree.up[fork]
        if profile.stores_forks and fork not in tree.roots:
            units[fork] = now
        units[prompt] = now
        if profile.stores_output:
            units[tree.leaf[row]] = now
        node = tree.leaf[row]
        while node not in tree.roots:
            passed[node] = now
            node = tree.up[node]
    return _granted(lineage, profile, np.minimum(found, lineage.prompt_tokens - 1))


def _life_ns(profile: EngineProfile) -> int | None:
    return None if profile.lifetime_s is None else round(profile.lifetime_s * SECOND)


def _alive(last: int | None, now: int, life: int | None) -> bool:
    return last is not None and (life is None or now - last <= life)


def _granted(lineage: Lineage, profile: EngineProfile, tokens: Int64) -> Int64:
    enough = (tokens >= max(profile.minimum_tokens, 1)) & lineage.reads_cache
    return np.where(enough, tokens, 0).astype(np.int64)
