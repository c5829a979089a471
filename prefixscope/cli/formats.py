"""`prefixscope formats`."""

from __future__ import annotations

from prefixscope.cli import options as o
from prefixscope.cli.outputs import Outputs
from prefixscope.errors import OptionError

__all__ = ["formats"]


def formats(how: o.How = None, json_file: o.JsonFile = None, force: o.Force = False) -> None:
    """The log formats that can be read, what each can tell, and how to switch such logging on."""
    from prefixscope import api
    from prefixscope.report.catalogue import format_sheet, format_table
    from prefixscope.report.json import json_head, plain

    known = api.formats()
    if how is not None:
        known = tuple(form for form in known if form.name == how)
        if not known:
            names = ", ".join(form.name for form in api.formats())
            raise OptionError(f"--how {how}: no such format (known: {names})")
    with Outputs(json_file=json_file, force=force) as outputs:
        outputs.write_json(json_head("formats") | {"formats": plain(known)})
    outputs.tell(format_table(known) if how is None else format_sheet(known[0]))
