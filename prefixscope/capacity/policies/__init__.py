"""Eviction policies beyond the engine's own, at chosen capacities; a policy is a small class and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prefixscope.capacity.policies.base import Policy, PolicyRun, PrefixTree, run_policy
from prefixscope.capacity.policies.optimum import OPTIMUM_OF, optimum
from prefixscope.capacity.policies.queues import S3Fifo, Sieve
from prefixscope.capacity.policies.ranked import (
    Fifo,
    LeastFrequent,
    LeastRecent,
    Lifetime,
    RecomputeCost,
    SegmentedLeastRecent,
    SharedFirst,
)
from prefixscope.engines.profile import EngineProfile
from prefixscope.errors import OptionError
from prefixscope.index.lineage import Lineage

__all__ = ["OPTIMUM", "OPTIMUM_OF", "POLICIES", "PolicyRun", "simulate_policy"]

POLICIES: Mapping[str, Callable[[PrefixTree, EngineProfile], Policy]] = {
    "lru": LeastRecent,
    "fifo": Fifo,
    "lfu": LeastFrequent,
    "slru": SegmentedLeastRecent,
    "sieve": Sieve,
    "s3fifo": S3Fifo,
    "cost": RecomputeCost,
    "ttl": Lifetime,
    "priority": SharedFirst,
}
"""Every policy by its name on the command line; `optimum` is the bound for all of them."""

OPTIMUM = "optimum"


def simulate_policy(
    name: str, lineage: Lineage, profile: EngineProfile, blocks: int, *, per_replica: bool = True,
    served: Callable[[int], None] | None = None,
) -> PolicyRun:  # fmt: skip
    """Cached tokens under one policy (or `optimum`) with `blocks` blocks per pool and replica, requests in order.

    OptionError names the known policies. `served` is told now and then how many more rows are done.
    """
    if name == OPTIMUM:
        return optimum(lineage, profile, blocks, per_replica=per_replica, served=served)
    if name not in POLICIES:
        raise OptionError(f"--policy {name}: unknown (known: {', '.join(POLICIES)}, {OPTIMUM})")
    return run_policy(lineage, profile, blocks, POLICIES[name], name, per_replica=per_replica, served=served)
