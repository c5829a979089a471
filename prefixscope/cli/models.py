"""`prefixscope models`."""

from __future__ import annotations

from prefixscope.cli import options as o
from prefixscope.cli.outputs import Outputs

__all__ = ["models_"]


def models_(
    names: o.ModelNames = None,
    model: o.Model = None,
    models: o.Models = None,
    json_file: o.JsonFile = None,
    force: o.Force = False,
) -> None:
    """How model names are resolved: tokenizer and template with their fingerprints, and KV bytes per token."""
    from prefixscope import api
    from prefixscope.report.catalogue import fact_sheets
    from prefixscope.report.json import json_head, plain

    with Outputs(json_file=json_file, force=force) as outputs:
        facts = api.model_facts(tuple(names or ()), o.log_options([], model=model, models_file=models))
        outputs.write_json(json_head("models") | {"models": plain(facts)})
    outputs.tell(fact_sheets(facts, "No model is named: give a folder, or --model or --models."))
