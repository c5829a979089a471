"""The options of KV memory, each defined once: sizes, lifetimes, tiers, policies. Commands pick from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prefixscope.api import MemoryOptions

MEMORY = "Memory"

Capacity = Annotated[
    list[str] | None,
    typer.Option(
        "--capacity",
        metavar="20000blocks|40GiB|2Mtok",
        help="KV memory of one replica, all its ranks together, in usable blocks, bytes (Gi = 2^30) or tokens "
        "(M = 10^6). Repeatable: the first is what is expected of the engine, all are points of the curve.",
        rich_help_panel=MEMORY,
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        min=1,
        help="Requests running at once, for the memory they hold. Default: from the log's own start and end times.",
        rich_help_panel=MEMORY,
    ),
]
KvDtype = Annotated[
    str | None,
    typer.Option(
        "--kv-dtype",
        metavar="NAME",
        help="Type the KV is kept in, such as fp8 or nvfp4. Default: what the models file says, else the model's own.",
        rich_help_panel=MEMORY,
    ),
]
TensorParallel = Annotated[
    int | None,
    typer.Option(
        "--tensor-parallel",
        metavar="N",
        min=1,
        help="Ranks of one replica; heads fewer than ranks are stored several times. Default: the models file, else 1.",
        rich_help_panel=MEMORY,
    ),
]
Lifetimes = Annotated[
    list[str] | None,
    typer.Option(
        "--ttl",
        metavar="DURATION",
        help="A lifetime after the last use to add to the table, such as 90s, 5m or 1h. Repeatable.",
        rich_help_panel=MEMORY,
    ),
]
Tiers = Annotated[
    list[str] | None,
    typer.Option(
        "--tier",
        metavar="NAME=SIZE[@BANDWIDTH[+LATENCY]]",
        help="A level of memory, the engine's own first: hbm=40GiB, then dram=200GiB@25GB/s+20us. Repeatable.",
        rich_help_panel=MEMORY,
    ),
]
ExclusiveTiers = Annotated[
    bool,
    typer.Option(
        "--exclusive-tiers",
        help="No block is in two tiers. Default: lower tiers hold copies of what is above them.",
        rich_help_panel=MEMORY,
    ),
]
TierChunk = Annotated[
    int | None,
    typer.Option(
        "--tier-chunk",
        metavar="N",
        min=1,
        help="Tokens per chunk in the tiers after the first (LMCache: 256). Default: blocks as in the engine.",
        rich_help_panel=MEMORY,
    ),
]
LatencyModelFile = Annotated[
    str | None,
    typer.Option(
        "--latency-model",
        metavar="FILE",
        help="Time to the first token, fitted by `prefixscope replay --latency-file`: tells reuse in prefill seconds.",
        rich_help_panel=MEMORY,
    ),
]
PrefillSpeed = Annotated[
    float | None,
    typer.Option(
        "--prefill-tokens-per-second",
        metavar="N",
        min=1,
        help="Speed of prefill, to tell whether fetching from a tier beats computing again.",
        rich_help_panel=MEMORY,
    ),
]
Policies = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="lru,fifo,...|all",
        help="Simulate eviction policies at each --capacity (without one at the recommended size), beside the best "
        "that any could do: lru, fifo, lfu, slru, sieve, s3fifo, cost, ttl, priority, optimum.",
        rich_help_panel=MEMORY,
    ),
]


def memory_options(
    capacity: list[str] | None, concurrency: int | None, kv_dtype: str | None, tensor_parallel: int | None
) -> MemoryOptions:
    """The options of KV memory, as the API takes them."""
    from prefixscope.api import MemoryOptions

    return MemoryOptions(tuple(capacity or ()), concurrency, kv_dtype, tensor_parallel)


def names_of(text: str | None) -> tuple[str, ...]:
    """`a,b` as names.

    >>> names_of("lru, sieve"), names_of(None)
    (('lru', 'sieve'), ())
    """
    return () if text is None else tuple(name.strip() for name in text.split(",") if name.strip())
