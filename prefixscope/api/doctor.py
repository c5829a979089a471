"""`models --template-doctor`: probes the chat templates of models for what breaks prefixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from prefixscope.api.options import LogOptions
from prefixscope.breaks.doctor import RefusedError, Render, examine
from prefixscope.engines.wire import default_rendering
from prefixscope.errors import ModelError
from prefixscope.ingest.settings import IngestOptions, model_table, prompt_rules
from prefixscope.logs import ReadOptions
from prefixscope.models.identity import fingerprint
from prefixscope.models.prompt import PromptMaker
from prefixscope.models.table import ModelEntry, ModelTable
from prefixscope.models.template import Unrenderable
from prefixscope.models.tokenizer import LoadedModel, load_model
from prefixscope.records import LoggedRequest, Source
from prefixscope.results.breaks import TemplateExamination

__all__ = ["template_doctor"]


def template_doctor(names: tuple[str, ...], options: LogOptions) -> tuple[TemplateExamination, ...]:
    """Examines every template of the named models (names of the table, folders or hub ids; default: all of the table).

    Raises ModelError for a model that can't be loaded or has no template.
    """
    table = model_table(options.models, options.models_file)
    entries = list(table.entries.values())
    if names:
        entries = [table.resolve(name) or ModelEntry(name, base=name, location=name) for name in names]
    return tuple(examined for entry in entries for examined in _examined(entry, options))


def _examined(entry: ModelEntry, options: LogOptions) -> Iterator[TemplateExamination]:
    model = load_model(entry, fast=False)
    chosen = [model.chosen] if model.chosen is not None else list(model.templates)
    if not chosen:
        raise ModelError(f"model {entry.name!r} has no chat template to examine; give one as chat_template")
    for name in chosen:
        source = model.templates[name]
        rendering = options.render or default_rendering(entry.engine or "vllm")
        yield TemplateExamination(
            entry.name, name, fingerprint(source), rendering, examine(_renderer(entry, model, name, options))
        )


def _renderer(entry: ModelEntry, model: LoadedModel, template: str, options: LogOptions) -> Render:
    own = replace(entry, name="examined", chat_template=template)
    rules = prompt_rules(
        IngestOptions(read=ReadOptions(), table=ModelTable({"examined": own}), render=options.render),
        fast_encoder=False,
    )
    maker = PromptMaker(rules)
    maker.use(replace(model, entry=own, chosen=template))

    def render(body: Mapping[str, Any], time_ns: int) -> str:
        made = maker.make(LoggedRequest(Source("", 0), "chat", body, model="examined", time_ns=time_ns))
        if isinstance(made, Unrenderable):
            raise RefusedError(made.message)
        assert made.prompt.text is not None
        return made.prompt.text

    return render
