"""What decides the rows of a run: options, the table of models, and the rules by which prompts are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefixscope.breaks.whatif import TOGETHER, Rewrite
from prefixscope.engines.wire import RENDERINGS, WIRES, default_rendering
from prefixscope.errors import OptionError
from prefixscope.logs import ReadOptions
from prefixscope.models.encode import Build
from prefixscope.models.identity import IdentityRules, new_salt_key
from prefixscope.models.prompt import PromptRules
from prefixscope.models.table import ModelEntry, ModelTable, parse_model_option
from prefixscope.models.table_file import read_models_file
from prefixscope.models.template import Rendering

__all__ = ["IngestOptions", "engine_settings", "model_table", "prompt_rules"]

_ENGINE_FIELDS = ("engine", "block_size", "match_unit", "speculative", "kv_dtype", "tensor_parallel")


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What decides rows: how files are read, which models there are, which rendering serves which engine.

    `workers` is the number of processes that parse, render and encode (1: this one); None decides by the size of the
    log. It never changes a result. `rewrite` changes every request first, to see what the log would give then.
    """

    read: ReadOptions
    table: ModelTable
    engine: str = "vllm"
    render: str | None = None
    namespace_by: str | None = None
    breaks: bool = False
    workers: int | None = None
    rewrite: Rewrite | None = None

    def __post_init__(self) -> None:
        if self.render is not None and self.render not in RENDERINGS:
            raise OptionError(f"--render {self.render}: choose from {', '.join(RENDERINGS)}")
        if self.workers is not None and self.workers < 1:
            raise OptionError(f"--workers {self.workers}: at least one process is needed")


def model_table(models: Sequence[str], models_file: str | None) -> ModelTable:
    """The table of `--models FILE.toml` and `--model NAME=...`; an option wins over an entry of the file."""
    given = {entry.name: entry for entry in map(parse_model_option, models)}
    if len(given) < len(models):
        ModelTable.of([parse_model_option(text) for text in models])  # tells which name was given twice
    filed = [] if models_file is None else list(read_models_file(Path(models_file)))
    entries: list[ModelEntry] = [*given.values(), *(entry for entry in filed if entry.name not in given)]
    return ModelTable.of(entries)


def engine_settings(pools: Sequence[str], table: ModelTable) -> dict[str, dict[str, Any]]:
    """What the models file says of the engine of each pool: its base's own entry first, then entries built on it."""
    found: dict[str, dict[str, Any]] = {}
    for pool in pools:
        named = table.resolve(pool or None)
        entries = [named, *(entry for entry in table.entries.values() if entry.base == pool)]
        for entry in entries:
            if entry is None:
                continue
            said = {key: getattr(entry, key) for key in _ENGINE_FIELDS if getattr(entry, key) is not None}
            said.update(entry.engine_options)
            if said:
                found[pool] = said
                break
    return found


def prompt_rules(
    options: IngestOptions,
    fast_encoder: bool,
    *,
    salt_key: bytes | None = None,
    distrusted: frozenset[str | None] = frozenset(),
    build_encoder: Build = "when_due",
) -> PromptRules:
    """How prompts are made in a run with these options; all processes of a run are given the same `salt_key`."""

    def rendering_of(engine: str | None) -> Rendering:
        if options.render is not None:
            return next(rendering for rendering in RENDERINGS if rendering == options.render)
        return default_rendering(engine or options.engine)

    return PromptRules(
        table=options.table,
        identity=IdentityRules(
            new_salt_key() if salt_key is None else salt_key,
            options.namespace_by,
            TOGETHER & frozenset(() if options.rewrite is None else options.rewrite.causes),
        ),
        wires=WIRES,
        rendering_of=rendering_of,
        fast_encoder=fast_encoder,
        build_encoder=build_encoder,
        distrusted=distrusted,
        rewrite=options.rewrite,
    )
