"""Two requests side by side: their tokens, their bodies, the text around the first difference, and where it lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from prefixscope.breaks.agreement import Gap, Walk, walk
from prefixscope.breaks.bodies import NOTHING, Body, BodyStore
from prefixscope.breaks.forms import printed, strings_of
from prefixscope.breaks.sides import Place, Rendered, Side, Texts, Window
from prefixscope.breaks.volatile import common_chars
from prefixscope.records import Json

__all__ = ["Comparison"]

_LEFT, _RIGHT = 40, 56
_TAIL = 12
_NO_CALLS: list[Json] = []
_Value = TypeVar("_Value")


class _once(Generic[_Value]):  # noqa: N801 - used like functools.cached_property, whose lock costs more than most values
    """A property that is computed when first asked for."""

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> _once[_Value]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> _Value: ...

    def __get__(self, owner: object | None, kind: type) -> _once[_Value] | _Value:
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._compute(owner)
        return value


class Comparison:
    """A request and the earlier one it is explained against; everything costly is made once, when first asked for."""

    def __init__(self, new: Side, old: Side, first: int, store: BodyStore, texts: Texts) -> None:
        self.new = new
        self.old = old
        self.first = first
        self._store = store
        self._texts = texts

    # -- tokens and text ------------------------------------------------------------------------------------------

    @_once
    def walk(self) -> Walk:
        """All gaps between the new prompt and the old sequence."""
        return walk(self.new.prompt, self.old.tokens, self.first)

    @_once
    def first_gap(self) -> Gap | None:
        """The first of them; None where the sides never differ."""
        gaps = (self.walk if "walk" in self.__dict__ else walk(self.new.prompt, self.old.tokens, self.first, 1)).gaps
        return gaps[0] if gaps else None

    def decode(self, side: Side, start: int, end: int) -> str | None:
        """Tokens start..end of one side as text."""
        return self._texts.decode(side.row, side.tokens[4 * max(start, 0) : 4 * max(end, 0)])

    @_once
    def window(self) -> Window | None:
        """Text around the first difference; None where there is no tokenizer."""
        return self.window_at(self.first, self.first)

    def window_at(self, new_at: int, old_at: int, right: int = _RIGHT) -> Window | None:
        """Text around a pair of places."""
        new_end = min(new_at + right, self.new.prompt_tokens)
        new = self.decode(self.new, new_at - _LEFT, new_end)
        old = self.decode(self.old, old_at - _LEFT, old_at + right)
        if new is None or old is None:
            return None
        if new_at != old_at:  # the common text in front may be cut at other places
            left = _common_left(
                self.decode(self.new, new_at - _LEFT, new_at), self.decode(self.old, old_at - _LEFT, old_at)
            )
            new, old = new[left[0] :], old[left[1] :]
        return Window(new, old, common_chars(new, old))

    @_once
    def new_rendered(self) -> Rendered | None:
        """The new prompt rendered again, with its parts."""
        return self._texts.rendered(self.new.row) if self.new.kind == "chat" else None

    @_once
    def old_rendered(self) -> Rendered | None:
        """The old prompt rendered again, with its parts."""
        return self._texts.rendered(self.old.row) if self.old.kind == "chat" else None

    def rendered_as(self, options: bool = False, time: bool = False) -> str | None:
        """The new prompt as text with the old one's template options or time."""
        return self._texts.rendered_as(self.new.row, self.old.row if options else None, self.old.row if time else None)

    def rendered_with(self, messages: Sequence[Json]) -> str | None:
        """The new prompt as text with other messages."""
        return self._texts.rendered_with(self.new.row, messages)

    # -- bodies ---------------------------------------------------------------------------------------------------

    @_once
    def bodies(self) -> tuple[Body, Body] | None:
        """Both bodies, where both are chats that can still be read."""
        new, old = self.new.body, self.old.body
        if new is None or old is None or self.new.kind != "chat" or self.old.kind != "chat":
            return None
        return new, old

    def message(self, piece: int) -> Mapping[str, Json]:
        """A message by its piece number, with a role that is a text and tool calls that are a list, or without."""
        value = self._store.message(piece)
        if not isinstance(value, dict):
            return {"content": value}
        if isinstance(value.get("role", ""), str) and isinstance(value.get("tool_calls", _NO_CALLS), list):
            return value
        kinds = {"role": str, "tool_calls": list}
        odd = [name for name, kind in kinds.items() if name in value and not isinstance(value[name], kind)]
        # what a template makes of them is its own affair: they differ where their JSON differs
        return {f"odd {name}" if name in odd else name: item for name, item in value.items()}

    @_once
    def equal_messages(self) -> int:
        """How many messages both begin with."""
        if self.bodies is None:
            return 0
        new, old = self.bodies
        pairs = enumerate(zip(new.messages, old.messages, strict=False))
        return next((place for place, (a, b) in pairs if a != b), min(len(new.messages), len(old.messages)))

    @_once
    def changed(self) -> tuple[Mapping[str, Json], Mapping[str, Json]] | None:
        """The first message that differs, new and old; None where one list is the beginning of the other."""
        if self.bodies is None:
            return None
        new, old = self.bodies
        at = self.equal_messages
        if at >= len(new.messages) or at >= len(old.messages):
            return None
        return self.message(new.messages[at]), self.message(old.messages[at])

    @_once
    def tools(self) -> tuple[list[Json], list[Json]] | None:
        """Both tool lists where they differ."""
        if self.bodies is None or self.bodies[0].tools == self.bodies[1].tools:
            return None
        lists = (self._store.value(body.tools) for body in self.bodies)
        new, old = (value if isinstance(value, list) else [] for value in lists)
        return new, old

    @_once
    def options(self) -> tuple[Mapping[str, Json], Mapping[str, Json]]:
        """Both sets of options that reach the template."""
        found: list[Mapping[str, Json]] = []
        for body in self.bodies or ():
            found.append({} if body.options == NOTHING else self._store.value(body.options))
        return (found[0], found[1]) if found else ({}, {})

    def role(self, index: int) -> str | None:
        """The role of the new side's message."""
        if self.bodies is None or index >= len(self.bodies[0].messages):
            return None
        role = self.message(self.bodies[0].messages[index]).get("role")
        return role if isinstance(role, str) else None

    # -- place ----------------------------------------------------------------------------------------------------

    @_once
    def place(self) -> Place:
        """The part of the new prompt with the first differing character; `output` where the old one's answer is."""
        if self.first >= self.old.prompt_tokens:
            return Place("output", None if self.bodies is None else len(self.bodies[1].messages))
        if self.new.kind != "chat":
            return Place("message", 0)
        return self._structural() or self._rendered_place() or self._guessed()

    def _message_place(self, index: int) -> Place:
        role = self.role(index)
        return Place("system", index, role) if role in ("system", "developer") else Place("message", index, role)

    def _structural(self) -> Place | None:
        """The differing message or tool, where the text around the first difference is found in it."""
        window = self.window
        if window is None or self.bodies is None:
            return None
        if self.changed is not None and _stands_in(window, *self.changed):
            return self._message_place(self.equal_messages)
        if self.tools is not None:
            new, old = self.tools
            at = next((n for n, (a, b) in enumerate(zip(new, old, strict=False)) if printed(a) != printed(b)), None)
            if at is not None and _text_stands_in(window, printed(new[at]), printed(old[at])):
                return Place("tools", at)
        return None

    def _rendered_place(self) -> Place | None:
        new, old = self.new_rendered, self.old_rendered
        if new is None or old is None:
            return None
        at = common_chars(new.text, old.text)
        for part in new.parts:
            if part.start_char <= at < part.end_char or (at == len(new.text) and part is new.parts[-1]):
                if part.kind == "system":
                    return Place("system", part.index, "system")
                if part.kind == "message" and part.index is not None:
                    return self._message_place(part.index)
                return Place(part.kind, part.index)
        return None

    @_once
    def neighbours(self) -> tuple[int | None, ...]:
        """The messages between which the first difference lies, where it is the template's own text."""
        new, old = self.new_rendered, self.old_rendered
        if new is None or old is None:
            return ()
        at = common_chars(new.text, old.text)
        messages = [part for part in new.parts if part.kind in ("message", "system")]
        before = [part.index for part in messages if part.end_char <= at]
        behind = [part.index for part in messages if part.start_char >= at]
        return (*before[-1:], *behind[:1])

    def _guessed(self) -> Place:
        if self.tools is not None:
            return Place("tools")
        if self.bodies is not None and self.changed is not None:
            return self._message_place(self.equal_messages)
        return Place("template")


def _common_left(new: str | None, old: str | None) -> tuple[int, int]:
    """Where the equal ends of two texts begin."""
    new, old = new or "", old or ""
    same = 0
    while same < min(len(new), len(old)) and new[-1 - same] == old[-1 - same]:
        same += 1
    return len(new) - same, len(old) - same


def _stands_in(window: Window, new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether the first difference of two messages is the one that the window shows."""
    ours, theirs = list(strings_of(new)), list(strings_of(old))
    for (our_path, our_text), (their_path, their_text) in zip(ours, theirs, strict=False):
        if our_path != their_path:
            return False
        if our_text != their_text:
            return _text_stands_in(window, our_text, their_text)
    return False


def _text_stands_in(window: Window, new: str, old: str) -> bool:
    same = common_chars(new, old)
    tail = new[max(0, same - _TAIL) : same].lstrip()
    if not window.new[: window.left].endswith(tail):
        return False
    if not tail and same == 0 and window.left and window.new[window.left - 1].isalnum():
        return False
    ours, theirs = new[same : same + 8], old[same : same + 8]
    return window.new_behind.startswith(ours) and window.old_behind.startswith(theirs) and bool(ours or theirs)
