"""Hosted APIs, as lifetime, minimum and increment: what their documentation promised on the date beside each rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prefixscope.engines.hosted_rules import increments, whole_units
from prefixscope.engines.profile import EngineOptions, EngineProfile, Fact, Rule, Verified
from prefixscope.errors import OptionError

__all__ = ["HOSTED", "HostedRule", "hosted"]

MINUTE = 60.0
TOLD = "hits are best effort there and routing is not seen: an upper bound of what the documentation promises"


@dataclass(frozen=True, slots=True)
class HostedRule:
    """One documented rule. `read` is when the documentation was read; `versions` the models or dates it holds for."""

    minimum: int
    increment: int
    lifetime_s: float | None
    rule: Rule
    statement: str
    lifetime: str
    source: str
    read: str
    versions: str
    verified: Verified = "documented"
    stores_output: bool = True
    stores_forks: bool = False
    notes: tuple[str, ...] = ()


def _openai() -> dict[str, HostedRule]:
    source = "OpenAI and Azure prompt caching guides"
    return {
        "5.5": HostedRule(
            1024,
            128,
            5 * MINUTE,
            increments,
            "prompts of 1,024 tokens and more, hits in steps of 128: 1024, 1152, ...",
            "5 to 10 minutes of inactivity, at most one hour; 24 hours with prompt_cache_retention",
            source,
            "2026-11",
            "models up to GPT-5.5",
        ),
        "5.6": HostedRule(
            1024,
            1,
            30 * MINUTE,
            whole_units,
            "hits end at breakpoints written before; taken to be the ends of earlier prompts (implicit mode)",
            "at least 30 minutes (prompt_cache_options.ttl)",
            source,
            "2026-11",
            "GPT-5.6 and later",
            verified="unverified",
            stores_output=False,
            notes=("breakpoints are not in the log's token counts: the ends of earlier prompts stand for them",),
        ),
    }


def _anthropic(minimum: int, models: str) -> HostedRule:
    return HostedRule(
        minimum,
        1,
        5 * MINUTE,
        whole_units,
        f"hits end at cache_control breakpoints, {minimum} tokens and more; taken to be the ends of earlier prompts",
        "5 minutes after the last use (1 hour for entries written with that ttl)",
        "LiteLLM prompt caching page of 2026-10-07 and client documentation",
        "2026-10",
        models,
        stores_output=False,
        notes=(
            "breakpoints and the 20-block look-back are not in the log's token counts: the ends of earlier prompts "
            "stand for them",
        ),
    )


def _deepseek() -> dict[str, HostedRule]:
    source = "DeepSeek context caching guide"
    return {
        "v4": HostedRule(
            0,
            1,
            None,
            whole_units,
            "a hit covers whole stored units: ends of earlier prompts and answers, and common prefixes once two "
            "requests have shown them, so the third one hits; units at fixed intervals of long inputs are not modelled",
            "none is promised; taken as endless",
            source,
            "2026-11",
            "V4",
            stores_forks=True,
        ),
        "v3.2": HostedRule(
            64,
            64,
            None,
            increments,
            "prefixes in units of 64 tokens",
            "hours to days, none promised; taken as endless",
            source,
            "2026-11",
            "2024-08 to V3.2",
        ),
    }


def _implicit(minimum: int, models: str, source: str, read: str) -> HostedRule:
    return HostedRule(
        minimum,
        1,
        None,
        increments,
        f"implicit caching of common prefixes of {minimum} tokens and more; no increment is documented, taken as 1",
        "none is documented; taken as endless",
        source,
        read,
        models,
    )


GEMINI = ("Gemini API context caching page", "2026-11")
QWEN = ("Alibaba Model Studio context cache page of October 2026", "2026-10")

HOSTED: Mapping[str, Mapping[str, HostedRule]] = {
    "openai": _openai(),
    "anthropic": {
        "1024": _anthropic(1024, "Sonnet 5, Opus 4.8, Sonnet 4.x, Opus 4 and 4.1, 3.x"),
        "512": _anthropic(512, "Opus 5, Fable 5, Mythos 5"),
        "4096": _anthropic(4096, "Haiku 4.5, Opus 4.5 and 4.6"),
    },
    "deepseek": _deepseek(),
    "gemini": {
        "flash": _implicit(1024, "2.5 Flash and later", *GEMINI),
        "pro": _implicit(4096, "2.5 Pro, 3 Pro", *GEMINI),
    },
    "qwen": {
        "2026-10": _implicit(1024, "since the page of 2026-10", *QWEN),
        "256": _implicit(256, "before", *QWEN),
    },
}
"""Rules by API and by what is written after the @ (a model generation, a minimum, a date); the first is the default."""


def hosted(name: str) -> Callable[[str | None, EngineOptions], EngineProfile]:
    """The factory of one API's profiles."""

    def profile_of(version: str | None, options: EngineOptions) -> EngineProfile:
        return _profile(name, version, options)

    return profile_of


def _profile(name: str, version: str | None, options: EngineOptions) -> EngineProfile:
    rules = HOSTED[name]
    chosen = version or next(iter(rules))
    if chosen not in rules:
        raise OptionError(f"--engine {name}@{version}: this version is not known (known: {', '.join(rules)})")
    rule = rules[chosen]
    if options.block_size is not None:
        raise OptionError(f"--block-size {options.block_size}: {name} does not let its users choose one")
    lifetime = rule.lifetime_s if options.lifetime_s is None else options.lifetime_s
    return EngineProfile(
        name=name,
        version=chosen,
        block_size=rule.increment,
        match_unit=options.match_unit or rule.increment,
        match_unit_why=f"documented for {rule.versions} (read {rule.read})",
        rule=rule.rule,
        stores_output=rule.stores_output,
        stores_forks=rule.stores_forks,
        visible="prefill_end",
        unhashed_first=False,
        monotone=rule.rule is increments,
        accepted_block_sizes=(rule.increment,),
        platform="hosted",
        minimum_tokens=rule.minimum,
        lifetime_s=lifetime,
        facts=_facts(rule),
        assumed=(f"{rule.statement} ({rule.versions}; read {rule.read})", _life(rule, lifetime), *rule.notes, TOLD),
        source="documentation",
    )


def _life(rule: HostedRule, lifetime: float | None) -> str:
    used = "no limit" if lifetime is None else f"{lifetime:g} s after the last use"
    return f"lifetime: {used} ({rule.lifetime})"


def _facts(rule: HostedRule) -> tuple[Fact, ...]:
    def told(subject: str, statement: str) -> Fact:
        return Fact(subject, statement, f"{rule.source}, read {rule.read}", rule.versions, rule.verified)

    return (
        told("match rule", rule.statement),
        told("lifetime", rule.lifetime),
        told("block size", f"increment {rule.increment}, minimum {rule.minimum} tokens"),
    )
