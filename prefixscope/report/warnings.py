"""What warnings say: one sentence per reason, however many lines it concerns.

A warning is data (`Warned(reason, facts)`) until here; the meanings stand in `report.warning_words`. A reason that is
not listed there is still told, in a plainer sentence: by its `message` fact where it has one, else by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prefixscope.report.numbers import count, plural
from prefixscope.report.text import visible
from prefixscope.report.warning_words import WARNING_WORDS
from prefixscope.report.words import readable
from prefixscope.results import Warned

__all__ = ["facts_in_words", "warning_in_words", "warnings_in_words"]

_COUNTERS = ("requests", "rows", "lines", "count")


def warnings_in_words(warnings: Iterable[Warned]) -> list[str]:
    """One sentence per reason, in order of first appearance; where there are several places, the first and a count.

    >>> place = {"file": "a.jsonl", "line": 3}
    >>> warnings_in_words([Warned("duplicate_key", place), Warned("duplicate_key", {"file": "a.jsonl", "count": 8})])[0]
    'A JSON object has the same key twice (9 times, first at a.jsonl:3): the last one counts, as in most servers.'
    """
    merged: dict[tuple[Any, ...], list[Warned]] = {}
    for warned in warnings:
        merged.setdefault((warned.reason, warned.facts.get("message"), warned.facts.get("model")), []).append(warned)
    return list(dict.fromkeys(_told(alike) for alike in merged.values()))


def warning_in_words(warned: Warned) -> str:
    """What is wrong (with its facts), what it does to the result, what to do.

    >>> warning_in_words(Warned("byte_order_mark", {"file": "a.jsonl", "line": 8}))
    'A line starts with a byte order mark (a.jsonl:8): it was dropped; nothing else changes.'
    >>> warning_in_words(Warned("strange_thing", {"requests": 3}))
    'Strange thing (3 requests).'
    """
    return _sentence_of(warned, facts_in_words(warned.facts))


def facts_in_words(facts: Mapping[str, Any]) -> str:
    """The facts of a warning in a few words: place, counts, the rest by name, a message last."""
    left = {key: value for key, value in facts.items() if value is not None and key not in ("message", "reason")}
    said = []
    place = _place(left.pop("file", None), left.pop("line", None))
    if place:
        said.append(place)
    for key in _COUNTERS:
        number = left.pop(key, None)
        if isinstance(number, int):
            said.append(plural(number, "time" if key == "count" else key.removesuffix("s")))
    said.extend(f"{readable(key)} {_value(value)}" for key, value in left.items())
    if facts.get("message"):
        said.append(visible(str(facts["message"])))
    return ", ".join(said)


def _told(alike: list[Warned]) -> str:
    first = alike[0]
    if len(alike) == 1:
        return warning_in_words(first)
    times = sum(_times(warned) for warned in alike)
    said = [plural(times, "time")]
    place = _place(first.facts.get("file"), first.facts.get("line"))
    if place:
        said.append(f"first at {place}")
    if first.facts.get("message"):
        said.append(visible(str(first.facts["message"])))
    return _sentence_of(first, ", ".join(said))


def _times(warned: Warned) -> int:
    numbers = [warned.facts[key] for key in _COUNTERS if isinstance(warned.facts.get(key), int)]
    return numbers[0] if numbers else 1


def _sentence_of(warned: Warned, facts: str) -> str:
    words = WARNING_WORDS.get(warned.reason)
    head = (words.what if words else readable(warned.reason)) + (f" ({facts})" if facts else "")
    if words is None:
        return _sentence(head)
    advice = f" {_sentence(words.advice)}" if words.advice else ""
    return _sentence(f"{head}: {words.effect}") + advice


def _place(file: Any, line: Any) -> str:
    where = [] if file is None else [visible(str(file))]
    if line is not None:
        where.append(str(line) if where else f"line {line}")
    return ":".join(where)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{readable(str(key))} {_value(item)}" for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(_value(item) for item in value)
    return visible(str(value))


def _sentence(text: str) -> str:
    ended = text if text.endswith((".", "!", "?")) else text + "."
    return ended[:1].upper() + ended[1:]
