"""What the template doctor found, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from prefixscope.report.numbers import count
from prefixscope.report.terminal.breaks import both_sides
from prefixscope.report.terminal.layout import Look
from prefixscope.report.text import visible
from prefixscope.results.breaks import FaultExample, TemplateExamination, TemplateProbe

__all__ = ["doctor_report"]

_STYLES = {"breaks": "bold red", "tail": "yellow", "note": "yellow", "refused": "dim", "keeps": "green"}
_ORDER = tuple(_STYLES)


def doctor_report(examined: Sequence[TemplateExamination], look: Look) -> RenderableType:
    """Every template with its findings: those that break first, with both sides at the first differing character."""
    parts: list[RenderableType] = []
    for one in examined:
        parts += [
            "",
            Text(f"{visible(one.model)}, template {visible(one.template)}", style="bold"),
            Text(f"fingerprint {one.fingerprint}, read as {one.rendering}", style="dim"),
        ]
        for probe in sorted(one.probes, key=lambda probe: _ORDER.index(probe.verdict)):
            parts += _probe(probe, look)
    if not examined:
        return Text("No model is named: give a folder, or --model or --models.")
    return Group(*parts[1:])


def _probe(probe: TemplateProbe, look: Look) -> Iterator[RenderableType]:
    place = "" if probe.first_different_character is None else f" (character {count(probe.first_different_character)})"
    yield Text.assemble((f"{probe.verdict:8}", _STYLES[probe.verdict]), f" {probe.probe}: {visible(probe.says)}{place}")
    if probe.new is not None:
        sides = FaultExample(0, None, 0, None, 0, "", probe.text_before, probe.old, probe.new)
        yield Padding(Group(*both_sides(sides, look.width - 10)), (0, 0, 0, 9))
