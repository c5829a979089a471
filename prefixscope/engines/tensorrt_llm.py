"""TensorRT-LLM: a trie of blocks with partial reuse."""

from __future__ import annotations

from prefixscope.engines.config import attends_to_everything
from prefixscope.engines.profile import EngineOptions, EngineProfile, Fact
from prefixscope.engines.rules import full_units, token_granular
from prefixscope.engines.versions import parse_version
from prefixscope.errors import OptionError

__all__ = ["tensorrt_llm"]

DEFAULT_VERSION = "1.2"
SIZES = (8, 16, 32, 64, 128)

FACTS = (
    Fact(
        "match rule",
        "with partial reuse (default) token granular: min(S, P-1), the partly matching block is copied; without it "
        "full blocks: max(min(S, P-1) // U * U, 0)",
        "cpp/tensorrt_llm/batch_manager: addSequence, loadOrAllocateBlocks (repository text)",
        "1.0 to 1.2, first cache manager",
        "source read",
    ),
    Fact(
        "block size",
        "32 tokens per block, a power of two; some MLA models force 64",
        "KvCacheConfig.tokens_per_block (repository text)",
        "1.0 to 1.2",
        "source read",
    ),
    Fact(
        "visibility",
        "full blocks of a prompt once its whole context is computed, the partial tail and outputs at the end of the "
        "request; equal prompts of one step do not share, the second may be held back and then hit",
        "resource_manager.update_resources, releaseBlocks (repository text)",
        "1.0 to 1.2",
        "source read",
    ),
    Fact(
        "generated tokens",
        "kept with their partial tail, without the last token; not for hybrid models or beam search",
        "releaseBlocks (repository text)",
        "1.0 to 1.2",
        "source read",
    ),
    Fact(
        "eviction",
        "leaf blocks by priority, then least recently used; to host memory where configured",
        "batch_manager: evictionPolicy (repository text)",
        "1.0 to 1.2",
        "source read",
    ),
    Fact(
        "second cache manager",
        "default for some models on recent main; looks for a partial match among fewer than 32 children; not modelled",
        "repository text",
        "after 1.2",
        "source read",
    ),
    Fact("what separates", "adapter task id, cache salt, multimodal hash", "blockKey.cpp", "1.0 to 1.2", "source read"),
)


def tensorrt_llm(version: str | None, options: EngineOptions) -> EngineProfile:
    """TensorRT-LLM's profile: 32 tokens per block, the partly matching block is copied (enable_partial_reuse)."""
    known = "1.0 to 1.2"
    number = parse_version("tensorrt-llm", version or DEFAULT_VERSION, known)
    if not (1, 0) <= number[:2] <= (1, 2):
        raise OptionError(f"--engine tensorrt-llm@{version}: this version is not known (known: {known})")
    block_size = options.block_size or 32
    if block_size & (block_size - 1):
        raise OptionError(f"--block-size {block_size}: TensorRT-LLM's tokens_per_block must be a power of two")
    if options.platform not in (None, "nvidia"):
        raise OptionError(f"--platform {options.platform}: TensorRT-LLM runs on nvidia only")
    if options.backend is not None:
        raise OptionError(f"--attention-backend {options.backend}: has no effect on TensorRT-LLM's blocks")
    assumed = ["TensorRT-LLM's rules were read in its source, not seen running"]
    if options.speculative != "none":
        assumed.append("no rule for speculative decoding is known for TensorRT-LLM: nothing is dropped")
    if not attends_to_everything(options):
        assumed.append("TensorRT-LLM's rule for sliding-window and recurrent layers is not modelled: an upper bound")
    partial = options.partial_reuse is not False
    unit = options.match_unit or (1 if partial else block_size)
    return EngineProfile(
        name="tensorrt-llm",
        version=version or DEFAULT_VERSION,
        block_size=block_size,
        match_unit=unit,
        match_unit_why="partial reuse matches to the token" if partial else f"tokens_per_block ({block_size})",
        rule=token_granular if partial and unit == 1 else full_units,
        partial_reuse=partial,
        visible="prefill_end",
        unhashed_first=False,
        eviction="leaf-priority-lru",
        speculative=options.speculative,
        accepted_block_sizes=SIZES,
        facts=FACTS,
        assumed=tuple(assumed),
    )
