"""NVIDIA Dynamo's KV router: what the router believes to be cached, which is not what the engine grants."""

from __future__ import annotations

from prefixscope.engines.profile import EngineOptions, EngineProfile, Fact
from prefixscope.engines.rules import lookahead_blocks, router_blocks
from prefixscope.engines.versions import parse_version
from prefixscope.errors import OptionError

__all__ = ["dynamo_router"]

DEFAULT_VERSION = "1.6"

FACTS = (
    Fact(
        "match rule",
        "full blocks of the whole prompt: min(S, P) // B * B; no last-token rule, so one block more than the engine "
        "grants when a fully cached prompt ends on a block boundary",
        "dynamo._core.compute_block_hash_for_seq, RadixTree",
        "1.6.1",
        "function run",
    ),
    Fact(
        "block size",
        "must equal the engine's block size",
        "kv_cache_block_size of the model deployment card",
        "1.6.1",
        "source read",
    ),
    Fact(
        "speculative decoding",
        "with EAGLE a block's hash covers one more token: (min(S, P) - 1) // B * B",
        "compute_block_hash_for_seq(is_eagle): windows of B + 1 tokens, stride B",
        "1.6.1",
        "function run",
    ),
    Fact(
        "visibility",
        "when the engine's events arrive; blocks of a request just routed are not visible before that",
        "router text",
        "1.6.1",
        "source read",
    ),
    Fact(
        "what separates",
        "adapter name, cache namespace; multimodal hashes without their offsets",
        "compute_block_hash_for_seq",
        "1.6.1",
        "function run",
    ),
)


def dynamo_router(version: str | None, options: EngineOptions) -> EngineProfile:
    """The router's own count of overlapping blocks."""
    known = "1.6"
    number = parse_version("dynamo-router", version or DEFAULT_VERSION, known)
    if number[:2] != (1, 6):
        raise OptionError(f"--engine dynamo-router@{version}: this version is not known (known: {known})")
    block_size = options.block_size or 16
    eagle = options.speculative != "none"
    return EngineProfile(
        name="dynamo-router",
        version=version or DEFAULT_VERSION,
        block_size=block_size,
        match_unit=options.match_unit or block_size,
        match_unit_why="the engine's block size, which the router must share",
        rule=lookahead_blocks if eagle else router_blocks,
        lookahead_tokens=1 if eagle else 0,
        visible="prefill_end",
        unhashed_first=False,
        speculative=options.speculative,
        platform=options.platform or "nvidia",
        facts=FACTS,
        assumed=("the router's belief, not the engine's grant: it can be one block higher per request",),
    )
