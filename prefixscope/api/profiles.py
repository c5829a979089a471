"""The engine profile of a pool: what the command line says, then the running engine, the models file, the defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from prefixscope.api.options import EngineChoice, MemoryOptions
from prefixscope.engines import ENGINES, EngineOptions, EngineProfile, resolve
from prefixscope.engines.config import Layout, model_groups
from prefixscope.engines.hosted import HOSTED
from prefixscope.engines.profile import Platform
from prefixscope.engines.running import RunningEngine, profile_of_running
from prefixscope.engines.wire import default_rendering
from prefixscope.errors import OptionError
from prefixscope.index.lineage import Lineage
from prefixscope.models.kv_bytes import KV_DTYPES
from prefixscope.reuse.selection import duration_ns

__all__ = ["check_choice", "engine_options_of", "memory_of", "profile_of", "service_ns"]

_VLLM = ("vllm", "vllm-ascend")
_HOSTED = tuple(HOSTED)
_NO_BLOCKS = ("llama-cpp", *_HOSTED)
ACTS_ON: Mapping[str, tuple[str, ...]] = {
    "platform": (*_VLLM, "sglang", "tensorrt-llm", "lmcache", "dynamo-router"),
    "attention_backend": (*_VLLM, "sglang", "tensorrt-llm"),
    "retention": _VLLM,
    "speculative_tokens": _VLLM,
    "lookahead": _VLLM,
    "max_batched_tokens": _VLLM,
    "context_parallel": _VLLM,
    "partial_reuse": ("tensorrt-llm",),
    "strip_thinking": ("sglang",),
    "slots": ("llama-cpp",),
    "lifetime": _HOSTED,
}
"""The engines on which an option acts. One that acts on none of those asked for is an error, never ignored."""

_KV_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1, "int8_per_token_head": 1, "fp8_per_token_head": 1}


def check_choice(choice: EngineChoice, filed: Iterable[str | None] = ()) -> None:
    """Wrong names and options that act on nothing are told before a log is read. OptionError says which.

    `filed` are the engines that the models file names.
    """
    named = choice.names or tuple(name for name in filed if name) or ("vllm",)
    asked = EngineOptions(block_size=None, unit=1)
    for name in named:
        resolve(name, asked)
    if choice.url is not None and len(choice.names) > 1:
        raise OptionError("--engine-url tells of one engine: give one --engine with it, or none")
    engines = {name.partition("@")[0] for name in named}
    if choice.url is None:
        for option, acts_on in ACTS_ON.items():
            if getattr(choice, option) is not None and engines.isdisjoint(acts_on):
                name = option.replace("_", "-")
                raise OptionError(f"--{name} acts on {_listed(acts_on)} only, and the engine is {_listed(engines)}")
    _retention(choice.retention)
    service_ns(choice)


def memory_of(memory: MemoryOptions, choice: EngineChoice) -> MemoryOptions:
    """The memory as asked for; without `--capacity`, that of the running engine where one is asked."""
    memory = dataclasses.replace(memory, context_parallel=choice.context_parallel)
    if choice.url is None or memory.capacities:
        return memory
    running = _running(choice.url)
    if not running.usable_blocks:
        return memory
    return dataclasses.replace(memory, capacities=(f"{running.usable_blocks // running.data_ranks}blocks",))


def _running(url: str) -> RunningEngine:
    from prefixscope.api.engine_url import ask_once  # what speaks HTTP is not imported by runs that ask nobody

    return ask_once(url)


def service_ns(choice: EngineChoice, said: Mapping[str, Any] | None = None) -> int | None:
    """`--service-time` in nanoseconds, else what the models file says, else None."""
    text = choice.service_time or (said or {}).get("service_time")
    return None if text is None else _duration("--service-time", text)


def profile_of(
    lineage: Lineage, pool: str, choice: EngineChoice, engine: str | None, memory: MemoryOptions | None = None
) -> EngineProfile:
    """The engine profile of one pool. With several engines side by side, `engine` is the one in turn.

    The models file speaks for the engine it names, or for any where it names none.
    """
    said: Mapping[str, Any] = lineage.provenance.get("engine_settings", {}).get(pool, {})
    running = None if choice.url is None else _running(choice.url)
    unit = int(lineage.unit.max(initial=1))
    wanted = engine or (None if running is not None and running.engine else said.get("engine"))
    default = running.engine if running is not None and running.engine else "trace" if unit > 1 else "vllm"
    name = (wanted or default).partition("@")[0]
    if name == "trace" and not choice.names:
        _refuse_on_trace(choice)
    filed = said.get("engine")
    if filed is not None and engine is not None and filed.partition("@")[0] != name:
        said = {key: said[key] for key in ("tensor_parallel", "kv_dtype") if key in said}
    options = _options(name, said, choice, memory or MemoryOptions(), unit)
    config: Mapping[str, Any] | None = lineage.provenance.get("model_configs", {}).get(pool)
    options, doubts = _with_config(options, config, memory or MemoryOptions(), said)
    doubts = (*doubts, *_rendering(lineage, filed, wanted or default))
    if running is not None:
        return _told_by(running, wanted, options, doubts)
    profile = resolve(wanted or default, options)
    return dataclasses.replace(profile, assumed=(*profile.assumed, *doubts))


def _rendering(lineage: Lineage, filed: str | None, engine: str) -> tuple[str, ...]:
    """That prompts were rendered as another engine reads them, where rows of messages were and it matters."""
    provenance = lineage.provenance
    used = provenance.get("render") or default_rendering(filed or provenance.get("rendered_for", "vllm"))
    own = default_rendering(engine)
    if not provenance.get("templates") or used == own or engine == "trace":
        return ()
    said = "as --render says" if provenance.get("render") else "the rendering of the engine the log was read for"
    return (f"prompts are rendered as {used} does ({said}); on its own this engine's would be {own}",)


def engine_options_of(lineage: Lineage, pool: str, choice: EngineChoice) -> EngineOptions:
    """What is known of the engine of one pool before it is asked itself: command line, models file, config.json."""
    said: Mapping[str, Any] = lineage.provenance.get("engine_settings", {}).get(pool, {})
    engine = choice.names[0] if choice.names else said.get("engine") or "vllm"
    options = _options(engine.partition("@")[0], said, choice, MemoryOptions(), 1)
    config: Mapping[str, Any] | None = lineage.provenance.get("model_configs", {}).get(pool)
    return _with_config(options, config, MemoryOptions(), said)[0]


def _options(
    name: str, said: Mapping[str, Any], choice: EngineChoice, memory: MemoryOptions, unit: int
) -> EngineOptions:
    """The command line's word first, then the models file's; what does not act on engine `name` is left out."""

    def word(option: str) -> Any:
        given = getattr(choice, option)
        if option == "block_size" and len(choice.names) > 1 and name in _NO_BLOCKS:
            return None  # it is meant for the other engines
        if given is None:
            given = said.get(option)
        return given if name in ACTS_ON.get(option, (name,)) else None

    speculative = choice.speculative if choice.speculative != "none" else said.get("speculative", "none")
    if speculative not in ("none", "eagle", "mtp"):
        raise OptionError(f"speculative = {speculative!r} in the models file: choose none, eagle or mtp")
    platform = word("platform")
    if platform is not None and platform not in get_args(Platform):
        raise OptionError(f"--platform {platform}: choose from {', '.join(get_args(Platform)[:-1])}")
    lifetime = word("lifetime")
    return EngineOptions(
        block_size=word("block_size"),
        match_unit=word("match_unit"),
        speculative=speculative,
        unit=unit,
        platform=platform,
        backend=word("attention_backend"),
        lookahead_tokens=word("lookahead"),
        tensor_parallel=memory.tensor_parallel or said.get("tensor_parallel") or 1,
        speculative_tokens=word("speculative_tokens") or 0,
        context_parallel=word("context_parallel") or 1,
        retention=_retention(word("retention")),
        max_batched_tokens=word("max_batched_tokens"),
        partial_reuse=word("partial_reuse"),
        strip_thinking=bool(word("strip_thinking")),
        slots=word("slots"),
        lifetime_s=None if lifetime is None else _duration("--lifetime", lifetime) / 1e9,
    )


def _refuse_on_trace(choice: EngineChoice) -> None:
    given = next((option for option in ACTS_ON if getattr(choice, option) is not None), None)
    if given is not None:
        raise OptionError(
            f"--{given.replace('_', '-')}: the log holds hashes, to which no engine's rules are applied unless one is "
            "named (--engine)"
        )


def _with_config(
    options: EngineOptions, config: Mapping[str, Any] | None, memory: MemoryOptions, said: Mapping[str, Any]
) -> tuple[EngineOptions, tuple[str, ...]]:
    """The options with the model's config.json, and what could not be made of it."""
    dtype = memory.kv_dtype or said.get("kv_dtype") or "auto"
    if dtype not in KV_DTYPES:
        raise OptionError(f"--kv-dtype {dtype}: unknown (known: {', '.join(KV_DTYPES)})")
    if config is None:
        return options, ()
    width = _KV_BYTES.get(_own_dtype(config) if dtype == "auto" else dtype)
    options = dataclasses.replace(options, kv_bytes=width or 2)
    layout = Layout(options.tensor_parallel, options.kv_bytes, options.speculative_tokens)
    try:
        groups = model_groups(config, options.block_size or 16, layout)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        doubt = f"the model's config.json tells no KV groups ({error!r}): taken as full attention in every layer"
        return options, (doubt,)
    grown = any(group.kind == "mamba" for group in groups.groups) and len(groups.groups) > 1
    doubts = (f"the block size of this model depends on the bytes of {dtype}, taken as 2 per number",)
    return dataclasses.replace(options, model_config=config), doubts if width is None and grown else ()


def _own_dtype(config: Mapping[str, Any]) -> str:
    inner: Any = next((config[name] for name in ("text_config", "language_config", "llm_config") if name in config), {})
    names = [part.get(key) for part in (inner, config) if isinstance(part, Mapping) for key in ("torch_dtype", "dtype")]
    return str(next((name for name in names if name), "bfloat16")).removeprefix("torch.")


def _told_by(
    running: RunningEngine, wanted: str | None, options: EngineOptions, doubts: Sequence[str]
) -> EngineProfile:
    profile, assumed = profile_of_running(running, wanted, options)
    told = []
    if running.prefix_caching is False:
        told.append("prefix caching is switched off on this engine: it reuses nothing; this is what it could reuse")
    if running.version is None:
        told.append(f"its version is not told: the rules of {profile.version}")
    if running.data_ranks > 1:
        told.append(f"{running.data_ranks} data-parallel engines stand behind this address, each with its own cache")
    if options.block_size is not None and running.block_size not in (None, options.block_size):
        told.append(f"--block-size {options.block_size} was asked for; the engine runs with {running.block_size}")
    return dataclasses.replace(profile, source=running.url, assumed=(*told, *assumed, *doubts))


def _retention(said: str | int | None) -> int | Literal["dense", "default"]:
    if said is None:
        return "default"
    if said == "dense":
        return "dense"
    text = str(said)
    if not (text.isascii() and text.isdecimal()):
        raise OptionError(f"--retention {said}: write dense, 0 or a number of tokens")
    return int(text)


def _duration(option: str, text: str) -> int:
    try:
        return duration_ns(option, text)
    except OptionError:
        raise OptionError(f"{option} {text}: write a duration such as 800ms, 30s, 10m or 24h") from None


def _listed(names: Sequence[str] | set[str]) -> str:
    return ", ".join(name for name in ENGINES if name in set(names))
