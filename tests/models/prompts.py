"""Builds makers and requests for tests: one place that knows how a logged request looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from prefixscope.engines.wire import WIRES, Rendering
from prefixscope.models.identity import IdentityRules
from prefixscope.models.loaded_tokenizer import LoadedTokenizer, TokenizerFacts
from prefixscope.models.prompt import Made, PromptMaker, PromptRules
from prefixscope.models.table import ModelEntry, ModelTable
from prefixscope.models.tokenizer import LoadedModel, load_model
from prefixscope.records import LoggedRequest, Source
from tests.real_tokenizers import or_skip, tokenizer_folder

RULES = IdentityRules(salt_key=b"test")


def _always(rendering: Rendering, engine: str | None) -> Rendering:
    del engine
    return rendering


def maker(*entries: ModelEntry, rendering: Rendering = "plain", **changes: Any) -> PromptMaker:
    rules = PromptRules(ModelTable.of(entries), RULES, WIRES, partial(_always, rendering))
    return PromptMaker(replace(rules, **changes))


@cache
def real_model(name: str) -> LoadedModel:
    """A real tokenizer, loaded once for all tests; a skip where the registry does not answer."""
    return load_model(ModelEntry("m", "m", str(or_skip(tokenizer_folder, name))))


@cache
def transformers_tokenizer(folder: str) -> Any:
    """The tokenizer as transformers loads it, whatever this package keeps of it."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def as_loaded(backend: Any, serialised: str | None = None) -> LoadedTokenizer:
    """A tokenizer made by hand, as if it had been loaded."""
    facts = TokenizerFacts("Tokenizer", 0, {}, {}, None, None)
    return LoadedTokenizer(facts, backend.to_str() if serialised is None else serialised, lambda: backend)


def model_folder(base: Path, template: str | None, into: Path) -> Path:
    """A copy of a tokenizer folder with another chat template."""
    into.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json", "tokenizer.model"):
        if (base / name).is_file():
            (into / name).write_bytes((base / name).read_bytes())
    if template is not None:
        (into / "chat_template.jinja").write_text(template, encoding="utf-8")
    return into


def logged(body: Mapping[str, Any], **known: Any) -> LoggedRequest:
    """A request as a reader makes it from a native body."""
    kind = next(
        kind
        for field, kind in (
            ("messages", "chat"), ("prompt", "text"), ("prompt_token_ids", "tokens"), ("hash_ids", "hashes"),
            ("input_length", "lengths"),
        )
        if field in body
    )  # fmt: skip
    time = body.get("timestamp")
    time_ns = None if time is None else int(datetime.fromisoformat(time).timestamp()) * 10**9
    facts: dict[str, Any] = {"kind": kind, "time_ns": time_ns, "model": body.get("model"), "n": body.get("n", 1)}
    return LoggedRequest(Source("log.jsonl", 1), body=body, **(facts | known))


def ids(made: Any) -> list[int]:
    """The prompt's own ids."""
    assert isinstance(made, Made), made
    return np.frombuffer(made.prompt.tokens, "<u4")[: made.prompt.prompt_tokens].tolist()


def shared(first: list[int], second: list[int]) -> int:
    """The common prefix, one by one."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length
