"""SGLang: a radix tree compared token by token, in pages."""

from __future__ import annotations

from collections.abc import Mapping

from prefixscope.engines.block_sizes import Backend, backend_named, block_size_for
from prefixscope.engines.config import attends_to_everything
from prefixscope.engines.profile import EngineOptions, EngineProfile, Fact, Platform
from prefixscope.engines.rules import bigram_pages, full_units
from prefixscope.engines.versions import parse_version
from prefixscope.errors import OptionError

__all__ = ["BACKENDS", "sglang"]

DEFAULT_VERSION = "0.5.23"

ANY_PAGE = Backend(1, (1, 16, 32, 64, 128), multiple_of=1)
BACKENDS: Mapping[str, Backend] = {
    "flashinfer": ANY_PAGE,
    "fa3": ANY_PAGE,
    "triton": ANY_PAGE,
    "torch_native": ANY_PAGE,
    "fa4_sm100": Backend(128, (128,), forces=True),
    "flashmla": Backend(64, (64,), forces=True),
    "trtllm_mla": Backend(64, (32, 64), forces=True),
    "cutedsl_mla": Backend(64, (32, 64), forces=True),
    "trtllm_mha": Backend(64, (16, 32, 64, 128), forces=True),
    "hpc_ops": Backend(64, (64,), forces=True),
    "intel_xpu": Backend(128, (64, 128), forces=True),
    "dsa": Backend(64, (64,), forces=True),
    "ascend": Backend(128, (128,)),
}
"""Page sizes by attention backend (arg_groups/overrides.py; hardware_backend/npu/utils.py; read in 0.5.23)."""

PLATFORM_BACKEND: Mapping[Platform, str] = {
    "nvidia": "flashinfer",
    "rocm": "triton",
    "cpu": "torch_native",
    "ascend": "ascend",
}

FACTS = (
    Fact(
        "match rule",
        "token by token in a radix tree, cut to full pages; at most the prompt without its last token: "
        "max(min(S, P-1) // U * U, 0) with U the page size",
        "schedule_batch.py: _compute_max_prefix_len; RadixCache run with pages of 1, 16 and 64",
        "0.5.23",
        "function run",
    ),
    Fact(
        "block size",
        "page size 1 unless the backend wants more: 64 for TRT-LLM kernels, FlashMLA and DSA, 128 on Ascend NPUs",
        "arg_groups/overrides.py; hardware_backend/npu/utils.py",
        "0.5.23",
        "source read",
    ),
    Fact(
        "speculative decoding",
        "with EAGLE the keys are pairs of neighbouring tokens, so one token less matches: min(S-1, P-2) // U * U",
        "RadixCache(is_eagle) run with pages of 1 and 16",
        "0.5.23",
        "function run",
    ),
    Fact(
        "visibility",
        "a prefix is found only after its prefill step was processed; equal prompts in one batch do not share",
        "batch_result_processor.py; scheduler.stash_chunked_request",
        "0.5.23",
        "source read",
    ),
    Fact(
        "generated tokens",
        "kept when the request ends, without the last sampled token; with --strip-thinking-cache only the prompt of "
        "requests that reasoned",
        "release_kv_cache; schedule_batch.py",
        "0.5.23",
        "source read",
    ),
    Fact(
        "eviction",
        "whole leaf nodes of the tree, least recently used first (lfu, slru, priority and tlru exist)",
        "mem_cache: evict",
        "0.5.23",
        "source read",
    ),
    Fact(
        "what separates",
        "extra_key (with the adapter's id) and cache_salt",
        "schedule_batch.py; RadixCache run with other keys and salts",
        "0.5.23",
        "function run",
    ),
    Fact(
        "requests that do not read",
        "prompt log-probabilities from token s on limit the match to s tokens; from the start they disable it",
        "schedule_batch.py: _compute_max_prefix_len",
        "0.5.23",
        "source read",
    ),
    Fact(
        "images, audio, video",
        "all placeholder tokens of an item become one value made of a hash of its content",
        "schedule_batch.py: pad_value",
        "0.5.23",
        "source read",
    ),
    Fact(
        "sliding window and recurrent layers",
        "a node must be preceded by a live window, or hold a state; the first sibling at a fork misses as in vLLM; "
        "not modelled here",
        "mem_cache: UnifiedRadixCache components",
        "0.5.23",
        "source read",
    ),
)


def sglang(version: str | None, options: EngineOptions) -> EngineProfile:
    """SGLang's profile: page size 1 unless the backend wants more; prefixes are found when their prefill has ended."""
    known = "0.5"
    number = parse_version("sglang", version or DEFAULT_VERSION, known)
    if number[:2] != (0, 5):
        raise OptionError(f"--engine sglang@{version}: this version is not known (known: {known})")
    platform = options.platform or "nvidia"
    if platform not in PLATFORM_BACKEND:
        raise OptionError(f"--platform {platform}: SGLang here means nvidia, rocm, cpu or ascend")
    backend = backend_named("sglang", options.backend or PLATFORM_BACKEND[platform], BACKENDS)
    page, notes = block_size_for("SGLang", backend, options, said=True)
    assumed = list(notes)
    if number != (0, 5, 23):
        assumed.append(f"the rules of SGLang 0.5.23, the version read; {version} was not")
    if not attends_to_everything(options):
        assumed.append("SGLang's rule for sliding-window and recurrent layers is not modelled: hits are an upper bound")
    if options.strip_thinking:
        assumed.append("--strip-thinking-cache: outputs are taken as not kept, also of requests that did not reason")
    return EngineProfile(
        name="sglang",
        version=version or DEFAULT_VERSION,
        block_size=page,
        match_unit=options.match_unit or page,
        match_unit_why="given by --match-unit" if options.match_unit else f"the page size ({page})",
        rule=full_units if options.speculative == "none" else bigram_pages,
        stores_output=not options.strip_thinking,
        visible="prefill_end",
        unhashed_first=False,
        eviction="leaf-lru",
        speculative=options.speculative,
        accepted_block_sizes=backend.sizes,
        platform=platform,
        facts=FACTS,
        assumed=tuple(assumed),
    )
