"""vLLM (V1 engine): match unit, what is dropped for speculative decoding and what is kept, by version."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from prefixscope.engines.block_sizes import Backend, backend_named, block_size_for
from prefixscope.engines.config import Layout, ModelGroups, model_groups
from prefixscope.engines.hybrid import grouped_hits
from prefixscope.engines.profile import CacheGroup, EngineOptions, EngineProfile, Grouping, Platform, Rule
from prefixscope.engines.rules import full_units, lookahead_blocks
from prefixscope.engines.versions import Version, parse_version
from prefixscope.engines.vllm_facts import FACTS
from prefixscope.errors import OptionError

__all__ = [
    "BACKENDS",
    "HASH_KEYS",
    "VERSIONS",
    "HashKeys",
    "VllmVersion",
    "hash_keys",
    "rules_of",
    "vllm",
    "vllm_rules",
]

DEFAULT_VERSION = "0.33"
NEWEST_READ: Version = (0, 33)


@dataclass(frozen=True, slots=True)
class VllmVersion:
    """What changed for matching, from version `since` on.

    `unhashed_first`: freed blocks without a hash are reused first. `retention`: default for sliding-window and
    recurrent states (None all of them, 0 only where a prompt can be resumed). `drop_aware_boundaries`: what is kept is
    placed where a hit ends after the drop. `whole_prompt_resends`: a resend of a prompt that ends on a block boundary
    finds its states and its dropped block. `lookahead`: with EAGLE or MTP a hash covers the next tokens and nothing is
    dropped after matching.
    """

    label: str
    since: Version
    unhashed_first: bool
    retention: int | None
    drop_aware_boundaries: bool
    whole_prompt_resends: bool
    lookahead: bool


VERSIONS = (
    VllmVersion("0.11 to 0.26", (0, 11), False, None, False, False, False),
    VllmVersion("0.27 to 0.28", (0, 27), True, None, False, False, False),
    VllmVersion("0.29", (0, 29), True, 0, False, False, False),
    VllmVersion("0.30 to 0.31", (0, 30), True, 0, True, False, False),
    VllmVersion("0.32", (0, 32), True, 0, True, True, False),
    VllmVersion("0.33 and later", (0, 33), True, 0, True, True, True),
)


@dataclass(frozen=True, slots=True)
class HashKeys:
    """What goes into a block's hash beside its tokens, from version `since` on.

    `fixed_seed`: without PYTHONHASHSEED the chain starts from the same value on every host (sha256 kinds only).
    """

    label: str
    since: Version
    fixed_seed: bool
    lora: Literal["int id", "name", "tagged name and path"]
    multimodal: Literal["identifier", "identifier and offset", "tagged identifier and offset"]
    salt: Literal["text", "tagged text"]
    events: Literal["array", "map"]


HASH_KEYS = (
    HashKeys("0.11", (0, 11), False, "int id", "identifier", "text", "array"),
    HashKeys("0.17", (0, 17), False, "name", "identifier", "text", "array"),
    HashKeys("0.19 to 0.23", (0, 19), False, "name", "identifier and offset", "text", "array"),
    HashKeys("0.25 to 0.28", (0, 25), False, "name", "identifier and offset", "text", "map"),
    HashKeys("0.29 to 0.30", (0, 29), True, "name", "identifier and offset", "text", "map"),
    HashKeys(
        "0.31 and later", (0, 31), True, "tagged name and path", "tagged identifier and offset", "tagged text", "map"
    ),
)

USUAL = (16, 32, 64, 128, 256)
BACKENDS: Mapping[str, Backend] = {
    "flash_attn": Backend(16, USUAL, multiple_of=16),
    "flashinfer": Backend(16, (16, 32, 64)),
    "triton_attn": Backend(16, USUAL, multiple_of=16),
    "flashmla": Backend(64, (64,)),
    "flashmla_sparse": Backend(64, (64, 128, 256), multiple_of=64),
    "cutlass_mla": Backend(128, (128,)),
    "flash_attn_mla": Backend(16, USUAL, multiple_of=16),
    "rocm_aiter_unified": Backend(64, (64,)),
    "cpu_attn": Backend(128, (32, 64, 128, 256), multiple_of=32),
}
"""Block sizes by attention backend (v1/attention/backends, platforms/cpu.py; read in 0.32.0)."""

PLATFORM_BACKEND: Mapping[Platform, str] = {"nvidia": "flash_attn", "cpu": "cpu_attn", "rocm": "triton_attn"}


def rules_of(number: Version) -> VllmVersion:
    """The newest entry that is not newer than `number`."""
    return next(entry for entry in reversed(VERSIONS) if entry.since <= number)


def hash_keys(number: Version) -> HashKeys:
    """The hash keys of a version. Of versions between two entries the older entry is taken.

    >>> hash_keys((0, 30)).lora, hash_keys((0, 31, 1)).lora
    ('name', 'tagged name and path')
    """
    return next(entry for entry in reversed(HASH_KEYS) if entry.since <= number)


def vllm(version: str | None, options: EngineOptions) -> EngineProfile:
    """vLLM's profile: full blocks only, found as soon as they are scheduled, the last prompt token recomputed."""
    known = "0.11 to 0.33 and later"
    number = parse_version("vllm", version or DEFAULT_VERSION, known)
    if number < VERSIONS[0].since:
        raise OptionError(f"--engine vllm@{version}: this version is not known (known: {known})")
    platform = options.platform or "nvidia"
    if platform not in PLATFORM_BACKEND:
        raise OptionError(
            f"--platform {platform}: vLLM here means nvidia, rocm or cpu (for Ascend: --engine vllm-ascend)"
        )
    backend = backend_named("vllm", options.backend or PLATFORM_BACKEND[platform], BACKENDS)
    said = options.backend is not None or options.platform is not None
    block_size, assumed = block_size_for("vLLM", backend, options, said)
    if number[:2] > NEWEST_READ:
        assumed = (f"the rules of vLLM 0.33, the newest version read; {version} was not", *assumed)
    return vllm_rules("vllm", version or DEFAULT_VERSION, rules_of(number), options, block_size, backend, assumed)


def vllm_rules(
    name: str,
    version: str,
    rules: VllmVersion,
    options: EngineOptions,
    block_size: int,
    backend: Backend,
    assumed: tuple[str, ...],
) -> EngineProfile:
    """A profile with vLLM's scheduler and cache manager, also for platforms that reuse them."""
    lookahead = 0
    if options.speculative != "none" and rules.lookahead:
        lookahead = 1 if options.lookahead_tokens is None else options.lookahead_tokens
    drops = options.speculative != "none" and not lookahead
    model = _model(options, block_size)
    grouping = None if options.match_unit else _grouping(model.groups, options, rules)
    rule: Rule = grouped_hits if grouping else lookahead_blocks if lookahead else full_units
    block_size = max((group.block_size for group in model.groups), default=block_size)
    return EngineProfile(
        name=name,
        version=version,
        block_size=block_size,
        match_unit=options.match_unit or _alignment(model.groups) or block_size,
        match_unit_why=_why(model, options, block_size),
        rule=rule,
        drop_units=1 if drops else 0,
        lookahead_tokens=lookahead,
        monotone=grouping is None,
        unhashed_first=rules.unhashed_first,
        speculative=options.speculative,
        accepted_block_sizes=(block_size,) if any(group.kind == "mamba" for group in model.groups) else backend.sizes,
        platform=options.platform or ("ascend" if name == "vllm-ascend" else "nvidia"),
        grouping=grouping,
        facts=FACTS,
        assumed=(*assumed, *model.assumed, *_kept(model.groups, grouping)),
    )


def _model(options: EngineOptions, block_size: int) -> ModelGroups:
    """The KV groups the user gave, or those of the model's config.json."""
    if options.groups:
        return ModelGroups(options.groups)
    if options.model_config is None:
        shared = options.context_parallel * block_size
        return ModelGroups(() if shared == block_size else (CacheGroup("full", shared),))
    kernel = 128 if options.platform == "ascend" else 32 if options.platform == "cpu" else 16
    layout = Layout(
        tensor_parallel=options.tensor_parallel,
        kv_bytes=options.kv_bytes,
        speculative_tokens=options.speculative_tokens,
        kernel_block=kernel,
        context_parallel=options.context_parallel,
    )
    return model_groups(options.model_config, block_size, layout)


def _kept(groups: tuple[CacheGroup, ...], grouping: Grouping | None) -> tuple[str, ...]:
    """What a model with several groups keeps, in words."""
    if all(group.kind in ("full", "chunked_local") for group in groups):
        return ()
    if grouping is None:
        return (
            "with --match-unit every unit counts as kept: that this model keeps its sliding-window or recurrent states "
            "only at some places is left out",
        )
    kinds = ", ".join(dict.fromkeys(group.kind.replace("_", " ") for group in grouping.groups))
    if grouping.retention is None:
        kept = "every state"
    elif grouping.retention == 0:
        kept = "only states where a prompt can be resumed or two prompts forked"
    else:
        kept = f"those and one state per {grouping.retention} tokens"
    return (f"a model with several KV groups ({kinds}), of which the engine keeps {kept}",)


def _grouping(groups: tuple[CacheGroup, ...], options: EngineOptions, rules: VllmVersion) -> Grouping | None:
    """What is kept in the model's groups; None for plain full attention, whose rule needs sizes only."""
    if all(group.kind == "full" for group in groups):
        return None
    return Grouping(
        groups=groups,
        retention=_retention(groups, options, rules),
        max_batched_tokens=options.max_batched_tokens or 0,
        keeps_resend_state=rules.whole_prompt_resends,
        peeks_at_last_token=rules.whole_prompt_resends,
        drop_aware_boundaries=rules.drop_aware_boundaries,
        keeps_below_junction=rules.lookahead,
    )


def _retention(groups: tuple[CacheGroup, ...], options: EngineOptions, rules: VllmVersion) -> int | None:
    if options.retention == "default":
        return rules.retention
    if options.retention == "dense":
        return None
    unit = _alignment(groups) or 1
    if options.retention and not any(group.kind in ("sliding_window", "mamba") for group in groups):
        raise OptionError(f"--retention {options.retention}: has no effect on this model, and vLLM refuses it")
    if options.retention < 0 or options.retention % unit:
        raise OptionError(f"--retention {options.retention}: vLLM wants 0 or a multiple of {unit} tokens here")
    return options.retention


def _alignment(groups: tuple[CacheGroup, ...]) -> int | None:
    return math.lcm(*(group.block_size for group in groups)) if groups else None


def _why(model: ModelGroups, options: EngineOptions, block_size: int) -> str:
    if options.match_unit:
        return "given by --match-unit"
    sizes = sorted({group.block_size for group in model.groups})
    if len(sizes) > 1:
        return f"the least common multiple of the KV groups' block sizes ({', '.join(map(str, sizes))})"
    return f"the block size ({block_size}): {model.why}" if model.why else f"the block size ({block_size})"
