"""llama.cpp's server: every slot holds one sequence, matched to the token."""

from __future__ import annotations

import numpy as np

from prefixscope.engines.config import attends_to_everything
from prefixscope.engines.profile import EngineOptions, EngineProfile, Fact
from prefixscope.engines.rules import token_granular
from prefixscope.engines.versions import parse_version
from prefixscope.errors import OptionError
from prefixscope.index.lineage import Int64, Lineage
from prefixscope.index.topology import Topology

__all__ = ["llama_cpp", "slot_hits"]

DEFAULT_VERSION = "b11434"
SIMILARITY = 0.1

FACTS = (
    Fact(
        "match rule",
        "token by token against the sequence a slot holds: min(S, P-1)",
        "running server: repeat of 100 tokens 99, prefix of 57 tokens 57, next turn 83 of 64 + 20",
        "b11434",
        "seen running",
    ),
    Fact(
        "slots",
        "the idle slot whose sequence shares more than a tenth of the prompt, the longest first, else the least "
        "recently used one; what it held after the common prefix is gone",
        "tools/server README: --slot-prompt-similarity",
        "b11434",
        "source read",
    ),
    Fact(
        "host prompt cache",
        "whole sequences displaced from a slot wait in host memory (8 GiB by default) and come back",
        "running server: a prompt displaced from two slots came back with 99 of 100",
        "b11434",
        "seen running",
    ),
    Fact(
        "visibility",
        "a slot serves one request at a time, so only ended requests share",
        "tools/server README",
        "b11434",
        "source read",
    ),
    Fact(
        "generated tokens",
        "stay in the slot without the last sampled token",
        "running server: prompt 64 + 20 generated, continued: 83",
        "b11434",
        "seen running",
    ),
    Fact("block size", "none: one token", "running server", "b11434", "seen running"),
)


def slot_hits(lineage: Lineage, profile: EngineProfile) -> Int64:
    """Cached tokens with `profile.slots` slots per model and nothing kept outside them, one request after another."""
    assert profile.slots is not None
    tree = Topology.of(lineage)
    cached = np.zeros(len(lineage), np.int64)
    slots: dict[int, list[int]] = {}
    prompts, pools = lineage.prompt_tokens.tolist(), lineage.pool.tolist()
    for row, (prompt_tokens, pool) in enumerate(zip(prompts, pools, strict=True)):
        held = slots.setdefault(pool, [])
        shared = [min(tree.common_prefix(row, other), prompt_tokens) for other in held]
        best = max(range(len(held)), key=lambda index: shared[index], default=None)
        if best is not None and shared[best] > SIMILARITY * prompt_tokens:
            hit = shared[best]
            del held[best]
        elif len(held) < profile.slots:
            hit = 0
        else:
            hit = shared[0]
            del held[0]
        held.append(row)
        cached[row] = max(min(hit, prompt_tokens - 1), 0)
    return np.where(lineage.reads_cache, cached, 0).astype(np.int64)


def llama_cpp(version: str | None, options: EngineOptions) -> EngineProfile:
    """The server's profile: without a number of slots, as if every sequence waited in the host prompt cache."""
    parse_version("llama-cpp", version or DEFAULT_VERSION, "b11434")
    if options.block_size not in (None, 1):
        raise OptionError(f"--block-size {options.block_size}: llama.cpp matches to the token and has no blocks")
    if options.slots is not None and options.slots < 1:
        raise OptionError(f"--slots {options.slots}: must be at least 1")
    assumed = []
    if (version or DEFAULT_VERSION) != DEFAULT_VERSION:
        assumed.append(f"the rules of llama.cpp {DEFAULT_VERSION}, the version seen running; {version} was not")
    if options.slots is None:
        assumed.append("every sequence stays in the host prompt cache: an upper bound (--slots N counts slots alone)")
    else:
        assumed.append(f"{options.slots} slots and no host prompt cache: a lower bound where -cram keeps one")
    if not attends_to_everything(options):
        assumed.append("sliding-window and recurrent models resume only at checkpoints there: an upper bound")
    return EngineProfile(
        name="llama-cpp",
        version=version or DEFAULT_VERSION,
        block_size=1,
        match_unit=1,
        match_unit_why="matches to the token",
        rule=token_granular if options.slots is None else slot_hits,
        visible="request_end",
        unhashed_first=False,
        eviction="slot-lru",
        monotone=options.slots is None,
        slots=options.slots,
        accepted_block_sizes=(1,),
        platform=options.platform or "cpu",
        facts=FACTS,
        assumed=tuple(assumed),
    )
