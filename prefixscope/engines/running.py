"""What a running engine says of itself: its pages /metrics, /version, /v1/models and the like, put together.

Whoever asks the engine (`--engine-url`, the replay) hands over the answers; nothing here talks to the network.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prefixscope.engines import resolve
from prefixscope.engines.profile import EngineOptions, EngineProfile
from prefixscope.errors import OptionError

__all__ = ["Answers", "MetricsFacts", "RunningEngine", "facts_of_metrics", "profile_of_running", "running_engine"]

_LABELLED = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\}\s")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
PREFIX_OF_ENGINE = {"vllm:": "vllm", "sglang:": "sglang", "llamacpp:": "llama-cpp", "trtllm_": "tensorrt-llm"}


@dataclass(frozen=True, slots=True)
class MetricsFacts:
    """What a metrics page tells; `blocks` are usable ones (vLLM's null block is left out), over all its data ranks."""

    engine: str | None = None
    block_size: int | None = None
    blocks: int | None = None
    prefix_caching: bool | None = None
    data_ranks: int = 1


@dataclass(frozen=True, slots=True)
class Answers:
    """The endpoint's answers to the questions; None where it has no such page (or does not let us read it)."""

    models: Any
    metrics: str | None
    version: Any = None
    server_info: Any = None
    props: Any = None


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """An engine behind an address: what it told, None where it did not tell. `pages` are those that answered."""

    url: str
    engine: str | None
    version: str | None
    models: tuple[str, ...]
    block_size: int | None
    usable_blocks: int | None
    prefix_caching: bool | None
    data_ranks: int
    pages: tuple[str, ...]


def facts_of_metrics(text: str) -> MetricsFacts:
    """Engine by the prefix of its metric names; sizes from `vllm:cache_config_info` (SGLang tells them elsewhere).

    >>> facts_of_metrics('vllm:cache_config_info{block_size="32",num_gpu_blocks="33",enable_prefix_caching="True"} 1')
    MetricsFacts(engine='vllm', block_size=32, blocks=32, prefix_caching=True, data_ranks=1)
    """
    engine = next((name for prefix, name in PREFIX_OF_ENGINE.items() if re.search(f"^{prefix}", text, re.M)), None)
    block_size = blocks = None
    ranks: set[str] = set()
    caching: bool | None = None
    for line in text.splitlines():
        match = _LABELLED.match(line)
        if match is None or not match.group(1).endswith(":cache_config_info"):
            continue
        labels: Mapping[str, str] = dict(_LABEL.findall(match.group(2)))
        block_size = _number(labels.get("block_size")) or block_size
        ranks.add(labels.get("engine", ""))
        if "enable_prefix_caching" in labels:
            caching = labels["enable_prefix_caching"] == "True"
        pages = _number(labels.get("num_gpu_blocks"))
        if pages is not None:
            blocks = (blocks or 0) + pages - 1
    return MetricsFacts(engine, block_size, blocks, caching, max(len(ranks), 1))


def running_engine(url: str, answers: Answers) -> RunningEngine:
    """Puts the answers together."""
    metrics = facts_of_metrics(answers.metrics or "")
    info: Mapping[str, Any] = answers.server_info if isinstance(answers.server_info, Mapping) else {}
    engine = metrics.engine or _engine_of(answers, info)
    caching = metrics.prefix_caching
    if caching is None and isinstance(info.get("disable_radix_cache"), bool):
        caching = not info["disable_radix_cache"]
    told = {
        "/v1/models": answers.models,
        "/metrics": answers.metrics,
        "/version": answers.version,
        "/get_server_info": answers.server_info,
        "/props": answers.props,
    }
    return RunningEngine(
        url=url,
        engine=engine,
        version=_version_of(answers, info),
        models=_models_of(answers.models),
        block_size=1 if engine == "llama-cpp" else metrics.block_size or _number(info.get("page_size")),
        usable_blocks=metrics.blocks if metrics.blocks is not None else _pages_of(info),
        prefix_caching=caching,
        data_ranks=metrics.data_ranks,
        pages=tuple(page for page, answer in told.items() if answer is not None),
    )


def _pages_of(info: Mapping[str, Any]) -> int | None:
    """SGLang's pool in pages: max_total_num_tokens / page_size of its server info (0.5.23, source read)."""
    tokens, page = _number(info.get("max_total_num_tokens")), _number(info.get("page_size"))
    return tokens // page if tokens and page else None


def profile_of_running(
    running: RunningEngine, engine: str | None, options: EngineOptions
) -> tuple[EngineProfile, tuple[str, ...]]:
    """The profile of what the user named, else of what the engine says it is; sentences for what is assumed.

    OptionError where neither names an engine, or where the user named one and its rules refuse the options.
    """
    assumed = []
    spec = engine
    if spec is None:
        if running.engine is None:
            raise OptionError(f"{running.url} does not tell which engine it is: name it with --engine NAME@VERSION")
        spec = running.engine
    if "@" not in spec and running.version is not None and spec == running.engine:
        spec = f"{spec}@{running.version}"
    if options.block_size is None:
        options = dataclasses.replace(options, block_size=running.block_size)
    try:
        profile = resolve(spec, options)
    except OptionError:
        if engine is not None or "@" not in spec:
            raise
        profile = resolve(spec.partition("@")[0], options)
        assumed.append(f"no rules are known for {spec}: those of {profile.name} {profile.version} are used")
    if options.block_size is None:
        assumed.append(f"block size {profile.block_size} (not read from the endpoint)")
    return profile, (*assumed, *profile.assumed)


def _models_of(answer: Any) -> tuple[str, ...]:
    rows = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(rows, Sequence):
        return ()
    return tuple(str(row["id"]) for row in rows if isinstance(row, Mapping) and "id" in row)


def _engine_of(answers: Answers, info: Mapping[str, Any]) -> str | None:
    if isinstance(answers.props, Mapping) and "default_generation_settings" in answers.props:
        return "llama-cpp"
    if "page_size" in info or "disable_radix_cache" in info:
        return "sglang"
    rows = answers.models.get("data") or () if isinstance(answers.models, Mapping) else ()
    owners = {row.get("owned_by") for row in rows if isinstance(row, Mapping)}
    for owner, engine in (("vllm", "vllm"), ("sglang", "sglang"), ("llamacpp", "llama-cpp")):
        if owner in owners:
            return engine
    return None


def _version_of(answers: Answers, info: Mapping[str, Any]) -> str | None:
    for source, name in ((answers.version, "version"), (info, "version"), (answers.props, "build_info")):
        if isinstance(source, Mapping) and isinstance(source.get(name), str):
            return str(source[name])
    return None


def _number(text: object) -> int | None:
    """A count as a metrics label or a JSON field gives it, or None.

    >>> _number("33"), _number("None"), _number(16)
    (33, None, 16)
    """
    written = str(text)
    return int(written) if written.isascii() and written.isdecimal() else None
