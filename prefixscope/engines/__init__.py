"""Engine profiles: what each serving engine does with prefixes, by name and version."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from prefixscope.engines.dynamo_router import dynamo_router
from prefixscope.engines.hosted import HOSTED, hosted
from prefixscope.engines.llama_cpp import llama_cpp
from prefixscope.engines.lmcache import lmcache
from prefixscope.engines.profile import CacheGroup, EngineOptions, EngineProfile, Fact, Grouping, Rule
from prefixscope.engines.sglang import sglang
from prefixscope.engines.tensorrt_llm import tensorrt_llm
from prefixscope.engines.trace import trace
from prefixscope.engines.vllm import vllm
from prefixscope.engines.vllm_ascend import vllm_ascend
from prefixscope.errors import OptionError
from prefixscope.records import LARGEST_BLOCK

__all__ = ["ENGINES", "CacheGroup", "EngineOptions", "EngineProfile", "Fact", "Grouping", "Rule", "resolve"]

Factory = Callable[[str | None, EngineOptions], EngineProfile]

ENGINES: Mapping[str, Factory] = {
    "vllm": vllm,
    "vllm-ascend": vllm_ascend,
    "sglang": sglang,
    "tensorrt-llm": tensorrt_llm,
    "dynamo-router": dynamo_router,
    "lmcache": lmcache,
    "llama-cpp": llama_cpp,
    **{name: hosted(name) for name in HOSTED},
    "trace": trace,
}
"""Every engine by its name on the command line."""


def resolve(spec: str = "vllm", options: EngineOptions | None = None) -> EngineProfile:
    """The profile of NAME[@VERSION] under these options; OptionError names the known engines or versions.

    >>> resolve("vllm@0.32").match_unit, resolve("sglang").match_unit
    (16, 1)
    """
    asked = options or EngineOptions()
    for option, value in (("--block-size", asked.block_size), ("--match-unit", asked.match_unit)):
        if value is not None and not 1 <= value <= LARGEST_BLOCK:
            raise OptionError(f"{option} {value}: write a number of tokens from 1 to {LARGEST_BLOCK:,}")
    name, _, version = spec.partition("@")
    if name not in ENGINES:
        raise OptionError(f"--engine {spec}: unknown engine {name!r} (known: {', '.join(ENGINES)})")
    if "@" in spec and not version:
        raise OptionError(f"--engine {spec}: no version after the @")
    return _on_hash_rows(ENGINES[name](version or None, asked), asked.unit)


def _on_hash_rows(profile: EngineProfile, unit: int) -> EngineProfile:
    """Rows with one id per `unit` tokens tell nothing finer: other match units give a lower bound, and it is said."""
    if profile.match_unit % unit == 0:
        return profile
    sentence = (
        f"the log has one hash per {unit} tokens and {profile.name} matches in units of {profile.match_unit}, which is "
        f"not a multiple: cached tokens are a lower bound (--block-size {unit} would be exact)"
    )
    return dataclasses.replace(profile, lower_bound=True, assumed=(*profile.assumed, sentence))
