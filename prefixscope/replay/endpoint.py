"""What an endpoint is: engine, version, block size, blocks, models, read from /metrics, /version and /v1/models."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prefixscope.errors import EndpointError
from prefixscope.records import Json
from prefixscope.replay.results import EndpointFacts

__all__ = ["Answers", "MetricsFacts", "as_engine", "facts_of", "facts_of_metrics"]

_LABELLED = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\}\s")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
PREFIX_OF_ENGINE = {"vllm:": "vllm", "sglang:": "sglang", "llamacpp:": "llama-cpp", "trtllm_": "tensorrt-llm"}
TAKES_IDS = ("vllm", "vllm-ascend", "sglang", "llama-cpp", "tensorrt-llm")
TOKENIZES_CHATS = ("vllm", "vllm-ascend")


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

    models: Json
    metrics: str | None
    version: Json = None
    server_info: Json = None
    props: Json = None


def facts_of_metrics(text: str) -> MetricsFacts:
    """Engine by the prefix of its metric names; sizes from `vllm:cache_config_info` or `sglang:cache_config_info`.

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
        block_size = _number(labels.get("block_size") or labels.get("page_size")) or block_size
        ranks.add(labels.get("engine", ""))
        if "enable_prefix_caching" in labels:
            caching = labels["enable_prefix_caching"] == "True"
        pages = _number(labels.get("num_gpu_blocks"))
        if pages is not None:
            blocks = (blocks or 0) + pages - 1
        elif labels.get("num_pages"):
            blocks = _number(labels["num_pages"])
    return MetricsFacts(engine, block_size, blocks, caching, max(len(ranks), 1))


def facts_of(url: str, answers: Answers) -> EndpointFacts:
    """Puts the answers together; EndpointError where it names no model."""
    models = _models_of(answers.models)
    if not models:
        raise EndpointError(f"{url}: /v1/models names no model; is this an OpenAI-compatible endpoint?")
    metrics = facts_of_metrics(answers.metrics or "")
    info = answers.server_info if isinstance(answers.server_info, Mapping) else {}
    engine = metrics.engine or _engine_of(answers, info)
    block_size = metrics.block_size or _number(info.get("page_size"))
    caching = metrics.prefix_caching
    if caching is None and isinstance(info.get("disable_radix_cache"), bool):
        caching = not info["disable_radix_cache"]
    told = {
        "/metrics": answers.metrics,
        "/version": answers.version,
        "/get_server_info": answers.server_info,
        "/props": answers.props,
    }
    return EndpointFacts(
        url=url,
        engine=engine,
        version=_version_of(answers, info),
        models=models,
        block_size=1 if engine == "llama-cpp" else block_size,
        usable_blocks=metrics.blocks,
        prefix_caching=caching,
        accepts_ids=engine in TAKES_IDS,
        can_tokenize=engine in TOKENIZES_CHATS,
        sources=("/v1/models", *(page for page, answer in told.items() if answer is not None)),
        missing=tuple(_missing(answers, engine, block_size, metrics.data_ranks)),
    )


def as_engine(facts: EndpointFacts, engine: str, *, ids: bool) -> EndpointFacts:
    """The facts with what follows from the engine that the user named; `ids`: the user says that it takes token ids."""
    return dataclasses.replace(
        facts, accepts_ids=ids or engine in TAKES_IDS, can_tokenize=facts.can_tokenize or engine in TOKENIZES_CHATS
    )


def _missing(answers: Answers, engine: str | None, block_size: int | None, data_ranks: int) -> list[str]:
    missing = []
    if data_ranks > 1:
        missing.append(
            f"{data_ranks} data-parallel engines stand behind this address, each with a cache of its own; which of them "
            "served a request is not told: predictions are made for one cache"
        )
    if engine is None:
        missing.append("the endpoint does not tell which engine it is: name it with --engine NAME@VERSION")
    if answers.metrics is None:
        hint = {"sglang": " (start SGLang with --enable-metrics)", "llama-cpp": " (start llama-server with --metrics)"}
        missing.append(f"no /metrics: its counters can't be checked{hint.get(engine or '', '')}")
    if block_size is None and engine not in (None, "llama-cpp"):
        missing.append("its block size can't be read: the profile's default is assumed (--block-size sets it)")
    return missing


def _models_of(answer: Json) -> tuple[str, ...]:
    rows = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(rows, Sequence):
        return ()
    return tuple(str(row["id"]) for row in rows if isinstance(row, Mapping) and "id" in row)


def _engine_of(answers: Answers, info: Mapping[str, Json]) -> str | None:
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


def _version_of(answers: Answers, info: Mapping[str, Json]) -> str | None:
    for source, name in ((answers.version, "version"), (info, "version"), (answers.props, "build_info")):
        if isinstance(source, Mapping) and isinstance(source.get(name), str):
            return str(source[name])
    return None


def _number(text: object) -> int | None:
    return int(str(text)) if str(text).isdigit() else None
