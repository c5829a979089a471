"""Findings as sentences: what is lost, by which rule, and what could be chosen instead."""

from __future__ import annotations

from prefixscope.report.numbers import count, of, percent, plural
from prefixscope.report.text import visible
from prefixscope.report.words import engine_name
from prefixscope.results import EngineUsed, Finding, SmallerUnit

__all__ = ["finding_in_words"]

_MOST_SIZES = 4


def finding_in_words(finding: Finding, engine: EngineUsed) -> tuple[str, ...]:
    """The sentences of one finding, the most important first."""
    assert finding.kind == "prefixes_shorter_than_unit"
    return (_loss(finding, engine), _lengths(finding), _choice(finding))


def _loss(finding: Finding, engine: EngineUsed) -> str:
    who = engine_name(engine)
    rule = f"{who} matches only full units of {plural(finding.match_unit, 'token')}, {visible(finding.match_unit_why)}"
    if finding.least_tokens > finding.match_unit:
        rule += f" and takes nothing of prefixes below {count(finding.least_tokens)}"
    return (
        f"Shared prefixes are too short for this engine: {of(finding.short_requests, finding.sharing_requests, '')}"
        f"requests that share anything share less than {plural(finding.least_tokens, 'token')}. {rule}, so "
        f"{of(finding.lost_tokens, finding.reusable_tokens, 'reusable tokens')} "
        f"({percent(finding.lost_tokens, finding.reusable_tokens)}) are lost to this alone."
    )


def _lengths(finding: Finding) -> str:
    lengths = finding.shared_lengths
    return (
        f"Tokens shared with an earlier request, of {plural(finding.sharing_requests, 'request')} that share any: "
        f"10 % share at most {count(lengths['p10'])}, half at most {count(lengths['p50'])}, "
        f"90 % at most {count(lengths['p90'])}, the longest {count(lengths['p100'])}."
    )


def _choice(finding: Finding) -> str:
    useful = [unit for unit in finding.smaller_units if unit.cached_tokens]
    if not useful:
        return "No smaller block size would give any reuse either."
    said = ", ".join(
        f"{count(unit.block_size)}: {percent(unit.cached_tokens, finding.prompt_tokens)}" for unit in _few(useful)
    )
    sentence = f"Cached share of prompt tokens with smaller blocks: {said}."
    offered = [unit for unit in useful if unit.offered]
    if finding.offered is None:
        return f"{sentence} Any size can be chosen here."
    if not offered:
        return f"{sentence} Engine and backend offer none of these sizes."
    best = max(offered, key=lambda unit: (unit.cached_tokens, unit.block_size))
    sizes = ", ".join(count(unit.block_size) for unit in offered)
    return (
        f"{sentence} Offered by engine and backend: {sizes}; --block-size {best.block_size} would give "
        f"{of(best.cached_tokens, finding.prompt_tokens, 'prompt tokens')}."
    )


def _few(units: list[SmallerUnit]) -> list[SmallerUnit]:
    """The largest sizes, offered ones first in doubt, and the smallest, in ascending order."""
    offered = [unit for unit in units if unit.offered is not False]
    chosen = (offered or units)[-_MOST_SIZES:]
    return sorted({unit.block_size: unit for unit in (units[0], *chosen)}.values(), key=lambda unit: unit.block_size)
