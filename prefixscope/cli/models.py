"""`prefixscope models`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from prefixscope.cli import break_options as b
from prefixscope.cli import options as o
from prefixscope.cli.outputs import Outputs
from prefixscope.cli.screen import look_of

if TYPE_CHECKING:
    from prefixscope.api import LogOptions

__all__ = ["models_"]


def models_(
    names: o.ModelNames = None,
    model: o.Model = None,
    models: o.Models = None,
    template_doctor: b.TemplateDoctor = False,
    render: o.Render = None,
    json_file: o.JsonFile = None,
    force: o.Force = False,
) -> None:
    """How model names are resolved: tokenizer and template with their fingerprints, and KV bytes per token."""
    from prefixscope import api
    from prefixscope.report.catalogue import fact_sheets
    from prefixscope.report.json import json_head, plain

    asked = o.log_options([], model=model, models_file=models, render=render)
    if template_doctor:
        _examine(tuple(names or ()), asked, Outputs(json_file=json_file, force=force))
        return
    with Outputs(json_file=json_file, force=force) as outputs:
        facts = api.model_facts(tuple(names or ()), asked)
        outputs.write_json(json_head("models") | {"models": plain(facts)})
    outputs.tell(fact_sheets(facts, "No model is named: give a folder, or --model or --models."))


def _examine(names: tuple[str, ...], options: LogOptions, files: Outputs) -> None:
    from prefixscope import api
    from prefixscope.report.json import json_head, plain
    from prefixscope.report.terminal.doctor import doctor_report

    with files as outputs:
        examined = api.template_doctor(names, options)
        outputs.write_json(json_head("models") | {"templates": plain(examined)})
    outputs.tell(doctor_report(examined, look_of(sys.stdout)))
