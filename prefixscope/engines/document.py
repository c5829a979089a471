"""Writes docs/engines.md from the profiles: `python -m prefixscope.engines.document > docs/engines.md`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prefixscope.engines import ENGINES, resolve
from prefixscope.engines.hosted import HOSTED
from prefixscope.engines.platforms import FEATURES, SUPPORT
from prefixscope.engines.profile import EngineProfile, Fact, Platform
from prefixscope.engines.sglang import BACKENDS as SGLANG_BACKENDS
from prefixscope.engines.vllm import BACKENDS as VLLM_BACKENDS
from prefixscope.engines.vllm import HASH_KEYS, VERSIONS

__all__ = ["document"]

HEAD = """# Engines: what each one can reuse

This page is generated from the engine profiles (`python -m prefixscope.engines.document`); a test keeps it current.
P is the number of prompt tokens, S the longest prefix shared with an earlier sequence of the same namespace, U the
match unit. Every statement says for which versions it holds and how it was verified:

- *seen running*: observed on a running engine;
- *function run*: the engine's own code was run by itself, without a server;
- *source read*: read in the engine's source, not run;
- *documented*: the vendor's documentation says so;
- *unverified*: none of these; treat it as a guess.
"""

MATRIX_NOTE = """\
A feature listed for a platform proves that an entry point exists there, not that every model, precision and parallel
mode works together with it. A dash, or a platform without a row, was not looked at.
"""

PLATFORMS: dict[Platform, str] = {"nvidia": "NVIDIA", "ascend": "Ascend", "cpu": "CPU"}


def document() -> str:
    """The whole page as Markdown."""
    profiles = [resolve(name) for name in ENGINES]
    parts = [
        HEAD,
        "## Defaults\n",
        _table(
            ("engine", "version", "block size", "match unit", "found by others", "outputs kept", "eviction"),
            map(_defaults, profiles),
        ),
        "\n## Engine and platform\n",
        MATRIX_NOTE,
        _table(("engine", "platform", *FEATURES), _matrix()),
        "\n## Facts\n",
        *map(_facts, profiles),
        "\n## vLLM by version\n",
        _versions(),
        "\nWhat a block's hash covers beside its tokens:\n",
        _hash_keys(),
        "\n## Block sizes by attention backend\n",
        _table(("engine", "backend", "default", "accepted"), _backends()),
        "\n## Hosted APIs\n",
        "Documentation changes; each rule carries the date it was read. None tells how the cache works inside.\n",
        _table(("API", "after the @", "rule", "minimum", "increment", "lifetime", "models", "read"), _hosted()),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _defaults(profile: EngineProfile) -> tuple[str, ...]:
    found = {
        "scheduled": "when scheduled",
        "prefill_end": "when prefill has ended",
        "request_end": "when the request has ended",
    }
    return (
        f"`{profile.name}`",
        profile.version,
        str(profile.block_size),
        str(profile.match_unit),
        found[profile.visible],
        "yes" if profile.stores_output else "no",
        profile.eviction,
    )


def _matrix() -> Iterable[tuple[str, ...]]:
    for engine, platform in dict.fromkeys((cell.engine, cell.platform) for cell in SUPPORT):
        cells = {cell.feature: cell for cell in SUPPORT if (cell.engine, cell.platform) == (engine, platform)}
        told = [
            f"{cell.entry} (*{cell.verified}*; {cell.source})" if (cell := cells.get(feature)) else "-"
            for feature in FEATURES
        ]
        yield (f"`{engine}`", PLATFORMS[platform], *told)


def _facts(profile: EngineProfile) -> str:
    facts: Sequence[Fact] = profile.facts
    rows = ((fact.subject, fact.statement, fact.source, fact.versions, f"*{fact.verified}*") for fact in facts)
    table = _table(("subject", "statement", "source", "versions", "verified"), rows)
    return f"### {profile.name}\n\n{table}"


def _versions() -> str:
    head = ("versions", "unhashed blocks reused first", "states kept by default", "EAGLE and MTP")
    rows = (
        (
            entry.label,
            "yes" if entry.unhashed_first else "no",
            "all" if entry.retention is None else "where a prompt can be resumed",
            "hash covers the next tokens" if entry.lookahead else "last matched unit dropped",
        )
        for entry in VERSIONS
    )
    return _table(head, rows)


def _hash_keys() -> str:
    head = ("versions", "start without PYTHONHASHSEED", "adapter", "multimodal item", "cache_salt", "event items")
    rows = (
        (k.label, "fixed (sha256)" if k.fixed_seed else "random", k.lora, k.multimodal, k.salt, k.events)
        for k in HASH_KEYS
    )
    return _table(head, rows)


def _backends() -> Iterable[tuple[str, ...]]:
    for engine, backends in (("vllm", VLLM_BACKENDS), ("sglang", SGLANG_BACKENDS)):
        for name, backend in backends.items():
            yield (f"`{engine}`", f"`{name}`", str(backend.default), backend.offer)
    yield ("`vllm-ascend`", "NPU", "128", "128; anything else is replaced by it")


def _hosted() -> Iterable[tuple[str, ...]]:
    for name, rules in HOSTED.items():
        for version, rule in rules.items():
            numbers = (str(rule.minimum), str(rule.increment))
            yield (f"`{name}`", version, rule.statement, *numbers, rule.lifetime, rule.versions, rule.read)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
