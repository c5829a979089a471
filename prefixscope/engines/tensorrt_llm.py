"""TensorRT-LLM: a trie of blocks with partial reuse."""

from __future__ import annotations

from prefixscope.engines.profile import EngineOptions, EngineProfile
from prefixscope.engines.rules import full_units, token_granular
from prefixscope.engines.versions import parse_version

__all__ = ["tensorrt_llm"]

DEFAULT_VERSION = "1.2"


def tensorrt_llm(version: str | None, options: EngineOptions) -> EngineProfile:
    """TensorRT-LLM's profile: 32 tokens per block, the partly matching block is copied (enable_partial_reuse)."""
    parse_version("tensorrt-llm", version or DEFAULT_VERSION, "1.0 to 1.2")
    block_size = options.block_size or 32
    partial = options.partial_reuse is not False
    return EngineProfile(
        name="tensorrt-llm",
        version=version or DEFAULT_VERSION,
        block_size=block_size,
        match_unit=options.match_unit or (1 if partial else block_size),
        rule=token_granular if partial else full_units,
        partial_reuse=partial,
        visible="prefill_end",
        unhashed_first=False,
        eviction="leaf-priority-lru",
        speculative=options.speculative,
        accepted_block_sizes=(16, 32, 64, 128),
    )
