"""What an endpoint is: engine, version, block size, blocks, models, read from /metrics, /version and /v1/models."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from prefixscope.engines.running import Answers, MetricsFacts, facts_of_metrics, running_engine
from prefixscope.errors import EndpointError
from prefixscope.records import Json
from prefixscope.results.replay import EndpointFacts

__all__ = ["Answers", "MetricsFacts", "as_engine", "facts_of", "facts_of_metrics"]

TAKES_IDS = ("vllm", "vllm-ascend", "sglang", "llama-cpp", "tensorrt-llm")
TOKENIZES_CHATS = ("vllm", "vllm-ascend")


def facts_of(url: str, answers: Answers) -> EndpointFacts:
    """Puts the answers together; EndpointError where it names no model."""
    running = running_engine(url, answers)
    if not running.models:
        raise EndpointError(f"{url}: /v1/models names no model; is this an OpenAI-compatible endpoint?")
    engine = running.engine
    return EndpointFacts(
        url=url,
        engine=engine,
        version=running.version,
        models=running.models,
        weights=tuple(_weights_of(answers.models)),
        block_size=running.block_size,
        usable_blocks=running.usable_blocks,
        prefix_caching=running.prefix_caching,
        accepts_ids=engine in TAKES_IDS,
        can_tokenize=engine in TOKENIZES_CHATS,
        sources=running.pages,
        missing=tuple(_missing(answers, engine, running.block_size, running.data_ranks)),
    )


def _weights_of(answer: Json) -> Iterator[tuple[str, str]]:
    """vLLM's list of models has a `root` per name: a path shared by all aliases, and the adapter's own for adapters."""
    for row in answer["data"]:
        if isinstance(row.get("root"), str):
            yield str(row["id"]), row["root"]


def as_engine(facts: EndpointFacts, engine: str, *, ids: bool) -> EndpointFacts:
    """The facts with what follows from the engine that the user named; `ids`: the user says that it takes token ids."""
    return dataclasses.replace(
        facts, accepts_ids=ids or engine in TAKES_IDS, can_tokenize=facts.can_tokenize or engine in TOKENIZES_CHATS
    )


def _missing(answers: Answers, engine: str | None, block_size: int | None, data_ranks: int) -> list[str]:
    missing = []
    if data_ranks > 1:
        missing.append(
            f"{data_ranks} data-parallel engines stand behind this address, each with its own cache, and do not tell "
            "which of them served a request: predictions are made for one cache"
        )
    if engine is None:
        missing.append("the endpoint does not tell which engine it is: name it with --engine NAME@VERSION")
    if answers.metrics is None:
        hint = {"sglang": " (start SGLang with --enable-metrics)", "llama-cpp": " (start llama-server with --metrics)"}
        missing.append(f"no /metrics: its counters can't be checked{hint.get(engine or '', '')}")
    if block_size is None and engine not in (None, "llama-cpp"):
        missing.append("its block size can't be read: the profile's default is assumed (--block-size sets it)")
    return missing
