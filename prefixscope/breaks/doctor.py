"""The template doctor: a few conversations that show where a chat template breaks prefixes, before any log is read.

Each probe renders a conversation as it is and one turn later (or at another time, or with another option) and finds
the first character that differs. Rendering is handed in: `render(body, time_ns)` gives the text of a request or raises
`RefusedError` with the template's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prefixscope.breaks.volatile import common_chars
from prefixscope.results.breaks import TemplateProbe

__all__ = ["PROBES", "RefusedError", "Render", "examine"]

Render = Callable[[Mapping[str, Any], int], str]
_NOON = 1_774_872_000_000_000_000
_MINUTE, _DAY = 60_000_000_000, 86_400_000_000_000
_SHOWN = 32

SYSTEM = {"role": "system", "content": "Qolvar rules: answer briefly and stay polite."}
FIRST = {"role": "user", "content": "Where is parcel seven?"}
ANSWER = {"role": "assistant", "content": "Parcel seven is on its way."}
SECOND = {"role": "user", "content": "When will it arrive?"}
THOUGHT = "The user asks for a parcel."
TOOL = {
    "type": "function",
    "function": {
        "name": "track_zemmik",
        "description": "Looks up a parcel.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}
CALL = {
    "role": "assistant", "content": "", "reasoning_content": THOUGHT,
    "tool_calls": [{
        "id": "abcdefghi", "type": "function",
        "function": {"name": "track_zemmik", "arguments": '{"number": 7}'},
    }],
}  # fmt: skip
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "name": "track_zemmik", "content": "on its way"}
OPTIONS: tuple[Mapping[str, Any], ...] = (
    {"enable_thinking": False}, {"enable_thinking": True}, {"thinking": True}, {"reasoning_effort": "high"},
)  # fmt: skip


class RefusedError(Exception):
    """The template refused a conversation; its message is the template's own."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two renderings of which the first should be the beginning of the second."""

    before: str
    after: str

    @property
    def first_difference(self) -> int | None:
        """The first character in which they differ; None where one is the beginning of the other."""
        at = common_chars(self.before, self.after)
        return None if at == len(self.before) else at


def examine(render: Render) -> tuple[TemplateProbe, ...]:
    """All probes, in the order in which their breaks would come first in a prompt."""
    return tuple(probe for name, run in PROBES.items() for probe in _run(name, run, render))


def _run(name: str, run: Callable[[Render], Iterator[TemplateProbe]], render: Render) -> Iterator[TemplateProbe]:
    try:
        yield from run(render)
    except RefusedError as refusal:
        yield TemplateProbe(name, "refused", str(refusal))


def _body(*messages: Mapping[str, Any], tools: bool = False, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"messages": [dict(message) for message in messages]}
    if tools:
        body["tools"] = [TOOL]
    return {**body, "chat_template_kwargs": options} if options else body


def _found(name: str, verdict: str, pair: _Pair, says: str) -> TemplateProbe:
    at = common_chars(pair.before, pair.after)
    return TemplateProbe(
        probe=name,
        verdict=verdict,
        says=says,
        first_different_character=at,
        text_before=pair.before[max(0, at - _SHOWN) : at],
        old=pair.before[at : at + _SHOWN],
        new=pair.after[at : at + _SHOWN],
    )


def _date(render: Render) -> Iterator[TemplateProbe]:
    body = _body(SYSTEM, FIRST)
    now = render(body, _NOON)
    for later, says in (
        (_NOON + _MINUTE, "prints the time: every minute"),
        (_NOON + _DAY, "prints the date: every day"),
    ):
        pair = _Pair(now, render(body, later))
        if pair.before != pair.after:
            yield _found("date", "breaks", pair, f"{says} everything behind it is computed again")
            return
    without = _body(FIRST)
    pair = _Pair(render(without, _NOON), render(without, _NOON + _DAY))
    if pair.before != pair.after:
        yield _found(
            "date", "breaks", pair, "prints the date where no system prompt is sent: every day all is computed again"
        )
        return
    yield TemplateProbe("date", "keeps", "prints no date")


def _moved(name: str, what: str, word: str, tools: bool) -> Callable[[Render], Iterator[TemplateProbe]]:
    def run(render: Render) -> Iterator[TemplateProbe]:
        before = render(_body(SYSTEM, FIRST, tools=tools), _NOON)
        after = render(_body(SYSTEM, FIRST, ANSWER, SECOND, tools=tools), _NOON)
        if word not in before:
            yield TemplateProbe(name, "keeps", f"does not print {what}")
        elif after.find(word) > after.find(FIRST["content"]) >= 0 and before.find(word) < before.find(FIRST["content"]):
            yield _found(
                name,
                "breaks",
                _Pair(before, after),
                f"moves {what} behind older turns: every turn all is computed again",
            )
        elif after.count(word) < before.count(word):
            yield _found(name, "breaks", _Pair(before, after), f"prints {what} only in the first turn")
        else:
            yield TemplateProbe(name, "keeps", f"prints {what} where it was")

    return run


def _next_turn(render: Render) -> Iterator[TemplateProbe]:
    pair = _Pair(render(_body(SYSTEM, FIRST), _NOON), render(_body(SYSTEM, FIRST, ANSWER, SECOND), _NOON))
    yield _prefix_probe("next turn", pair, render, _body(SYSTEM, FIRST))


def _tool_step(render: Render) -> Iterator[TemplateProbe]:
    pair = _Pair(render(_body(FIRST, tools=True), _NOON), render(_body(FIRST, CALL, RESULT, tools=True), _NOON))
    yield _prefix_probe("tool step", pair, render, _body(FIRST, tools=True))


def _prefix_probe(name: str, pair: _Pair, render: Render, body: dict[str, Any]) -> TemplateProbe:
    at = pair.first_difference
    if at is None:
        return TemplateProbe(name, "keeps", "the prompt of a turn begins the next one")
    bare = render({**body, "add_generation_prompt": False}, _NOON)
    if pair.before.startswith(bare) and at >= len(bare):
        lost = pair.before[at:]
        return _found(
            name, "tail", pair, f"the generation prompt's last {len(lost)} characters are not repeated in the history"
        )
    return _found(name, "breaks", pair, "text of an earlier turn is written in another way one turn later")


def _reasoning(render: Render) -> Iterator[TemplateProbe]:
    before = render(_body(FIRST, CALL, RESULT, tools=True), _NOON)
    after = render(_body(FIRST, CALL, RESULT, ANSWER, SECOND, tools=True), _NOON)
    pair = _Pair(before, after)
    if THOUGHT not in before:
        yield TemplateProbe("reasoning", "keeps", "prints no reasoning of earlier turns at all")
    elif THOUGHT not in after:
        yield _found("reasoning", "breaks", pair, "drops the reasoning of tool steps once the user writes again")
    elif pair.first_difference is not None:
        yield _prefix_probe("reasoning", pair, render, _body(FIRST, CALL, RESULT, tools=True))
    else:
        yield TemplateProbe("reasoning", "keeps", "keeps the reasoning of tool steps")


def _trimming(render: Render) -> Iterator[TemplateProbe]:
    for role, number in (("system", 0), ("user", 1), ("assistant", 2)):
        messages = [SYSTEM, FIRST, ANSWER, SECOND]
        content = messages[number]["content"]
        spaced = [*messages]
        spaced[number] = {**messages[number], "content": f"  {content} \n"}
        pair = _Pair(render(_body(*messages), _NOON), render(_body(*spaced), _NOON))
        if f"  {content} \n" not in pair.after and content in pair.after:
            what = "trims" if pair.before == pair.after else "changes white space around"
            note = ": an answer that ends in white space is sent back without it" if role == "assistant" else ""
            yield TemplateProbe(
                f"trimming ({role})", "tail" if role == "assistant" else "note", f"{what} {role} texts{note}"
            )
        else:
            yield TemplateProbe(f"trimming ({role})", "keeps", f"leaves {role} texts as they are")


def _null(render: Render) -> Iterator[TemplateProbe]:
    called = {**CALL, "content": None}
    pair = _Pair(
        render(_body(FIRST, CALL, RESULT, tools=True), _NOON), render(_body(FIRST, called, RESULT, tools=True), _NOON)
    )
    if pair.before != pair.after:
        yield _found("null content", "breaks", pair, "null content gives another prompt than an empty one")
    else:
        yield TemplateProbe("null content", "keeps", "null and empty content give one prompt")


def _options(render: Render) -> Iterator[TemplateProbe]:
    plain = render(_body(SYSTEM, FIRST), _NOON)
    said = False
    for option in OPTIONS:
        ((name, value),) = option.items()
        pair = _Pair(plain, render(_body(SYSTEM, FIRST, **option), _NOON))
        if pair.before == pair.after:
            continue
        said = True
        at = common_chars(pair.before, pair.after)
        head = at < plain.find(FIRST["content"])
        says = f"{name}={value} changes {'everything from here on' if head else 'only the end of the prompt'}"
        yield _found(f"option {name}={value}", "note" if not head else "breaks", pair, says)
    if not said:
        yield TemplateProbe("options", "keeps", "known options change nothing")


PROBES: Mapping[str, Callable[[Render], Iterator[TemplateProbe]]] = {
    "date": _date,
    "system prompt": _moved("system prompt", "the system prompt", "Qolvar", False),
    "tools": _moved("tools", "the tools", "track_zemmik", True),
    "next turn": _next_turn,
    "tool step": _tool_step,
    "reasoning": _reasoning,
    "trimming": _trimming,
    "null content": _null,
    "options": _options,
}
"""Probes by name, in the order of the report."""
