"""A chat template compiled for speed, under a judge: the same template as jinja2's own sandbox compiles it.

For every shape of input that is met for the first time (roles and keys of the messages, with or without tools) both
render, and the judge's text or refusal counts. One difference, and the judge serves from then on. What the quick one
rendered before was of shapes that both render alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from jinja2 import Environment, Template

from prefixscope.models.deadline import DeadlineExceeded, cpu_deadline

__all__ = ["ProvenTemplate"]

_MOST_SHAPES = 4096
Values = dict[str, Any]


class ProvenTemplate:
    """One source in both. Raises what jinja2 raises where not even the judge compiles it."""

    def __init__(self, source: str, quick: Callable[[], Environment], judge: Callable[[], Environment]) -> None:
        self._source = source
        self._judge_of = judge
        self._judge: Template | None = None
        self._shapes: set[Hashable] = set()
        self._quick: Template | None = None
        try:
            self._quick = _compiled(quick(), source)
        except Exception:  # whatever is wrong with it: the judge tells what the template is worth
            self._judge = _compiled(judge(), source)

    @property
    def is_quick(self) -> bool:
        """Whether the quick one is still trusted."""
        return self._quick is not None

    def render(self, values: Values, limit: float) -> str:
        """The text. Raises what the template raises, and DeadlineExceeded after `limit` seconds of CPU time."""
        quick = self._quick
        if quick is None:
            return _text(self._judging(), values, limit)
        shape = _shape(values)
        if shape in self._shapes:
            return _text(quick, values, limit)
        found = _outcome(quick, values, limit)
        if isinstance(found, DeadlineExceeded | MemoryError):
            raise found  # the judge would take as long, or as much
        right = _outcome(self._judging(), values, limit)
        if str(found) == str(right) and type(found) is type(right):
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes.add(shape)
        else:
            self._quick = None
        if isinstance(right, Exception):
            raise right
        return right

    def _judging(self) -> Template:
        if self._judge is None:
            self._judge = _compiled(self._judge_of(), self._source)
        return self._judge


def _compiled(environment: Environment, source: str) -> Template:
    template = environment.from_string(source)
    # jinja2 copies these for every rendering, and goes through its own chain of dicts name by name
    template.globals = dict(template.globals)
    return template


def _text(template: Template, values: Values, limit: float) -> str:
    with cpu_deadline(limit):
        return str(template.render(values))


def _outcome(template: Template, values: Values, limit: float) -> str | Exception:
    try:
        return _text(template, values, limit)
    except Exception as error:  # a refusal is an answer, too
        return error


def _shape(values: Values) -> Hashable:
    kinds = frozenset(map(_kind, values["messages"]))
    return kinds, values["tools"] is None, values["documents"] is None, values["add_generation_prompt"], len(values)


def _kind(message: Any) -> Hashable:
    role = message.get("role")
    return role if type(role) is str else type(role), type(message.get("content")), *message
