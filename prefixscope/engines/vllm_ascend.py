"""vLLM Ascend: vLLM's scheduler and cache on NPUs, whose kernels take blocks of 128 only."""

from __future__ import annotations

import dataclasses

from prefixscope.engines.block_sizes import Backend, block_size_for
from prefixscope.engines.profile import EngineOptions, EngineProfile, Fact
from prefixscope.engines.versions import parse_version
from prefixscope.engines.vllm import rules_of, vllm_rules
from prefixscope.errors import OptionError

__all__ = ["vllm_ascend"]

DEFAULT_VERSION = "0.23"
READ = ((0, 23), (0, 26))
NPU = Backend(128, (128,), forces=True)

FACTS = (
    Fact(
        "block size",
        "forced to 128 whatever is asked for, with prefix caching or chunked prefill on a model that is not hybrid",
        "vllm_ascend/utils.py: refresh_block_size (tag v0.23.0, main of 2026-08-22)",
        "0.23",
        "source read",
    ),
    Fact(
        "match rule",
        "vLLM's own, so max(min(S, P-1) // 128 * 128, 0): prompts below 129 tokens never hit",
        "vLLM's KVCacheManager is used unchanged (tag v0.23.0)",
        "0.23",
        "source read",
    ),
    Fact(
        "speculative decoding, drop",
        "with EAGLE or MTP the last matched block of 128 is given up",
        "vLLM 0.23 rules",
        "0.23",
        "source read",
    ),
    Fact(
        "retention",
        "all sliding-window and recurrent states are kept (vLLM 0.23 rules)",
        "vLLM 0.23; the DeepSeek-V4 coordinator of its own (patch_kv_cache_coordinator.py) is not modelled",
        "0.23",
        "unverified",
    ),
    Fact(
        "generated tokens",
        "full blocks of generated tokens stay findable, as in vLLM",
        "vLLM 0.23 rules",
        "0.23",
        "source read",
    ),
    Fact(
        "visibility",
        "blocks can be found as soon as they are scheduled, as in vLLM",
        "vLLM 0.23 rules",
        "0.23",
        "source read",
    ),
)


def vllm_ascend(version: str | None, options: EngineOptions) -> EngineProfile:
    """vLLM's rules of the same version with the NPU's block size."""
    known = "0.23 to 0.26"
    number = parse_version("vllm-ascend", version or DEFAULT_VERSION, known)
    if not READ[0] <= number[:2] <= READ[1]:
        raise OptionError(f"--engine vllm-ascend@{version}: this version is not known (known: {known})")
    if options.platform not in (None, "ascend"):
        raise OptionError(f"--platform {options.platform}: vllm-ascend runs on ascend only")
    if options.backend is not None:
        raise OptionError(f"--attention-backend {options.backend}: vllm-ascend has one backend, which takes 128")
    block_size, assumed = block_size_for("vLLM Ascend", NPU, options, said=True)
    options = dataclasses.replace(options, platform="ascend")
    if options.groups or options.model_config is not None:
        assumed += (
            "block sizes of hybrid models on an NPU (K and V pages apart) are computed as on a GPU; not checked",
        )
    if number[:2] != READ[0]:
        assumed = (f"the rules of vLLM Ascend 0.23, the version read; {version} was not", *assumed)
    profile = vllm_rules(
        "vllm-ascend", version or DEFAULT_VERSION, rules_of(READ[0]), options, block_size, NPU, assumed
    )
    return dataclasses.replace(profile, facts=FACTS)
