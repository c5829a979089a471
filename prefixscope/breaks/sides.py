"""One side of a comparison, the ways to its text, and the names of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from prefixscope.breaks.bodies import Body
from prefixscope.records import Json, Part

__all__ = ["Place", "Rendered", "Side", "Texts", "Window"]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as text with its parts."""

    text: str
    parts: tuple[Part, ...]


class Texts(Protocol):
    """The ways from a row to text, handed in by whoever has tokenizer and templates."""

    def decode(self, row: int, tokens: bytes) -> str | None:
        """The text of token ids under a row's tokenizer; None where it has none."""
        ...

    def rendered(self, row: int) -> Rendered | None:
        """A row's prompt rendered again, with parts; None where its body is gone or it has no template."""
        ...

    def rendered_as(self, row: int, options_of: int | None, time_of: int | None) -> str | None:
        """A row's prompt as it would be with the template options or the time of another row."""
        ...

    def rendered_with(self, row: int, messages: Sequence[Json]) -> str | None:
        """A row's prompt as it would be with other messages."""
        ...


@dataclass(frozen=True, slots=True)
class Side:
    """One request: its known sequence (prompt, then generated tokens) and what can be read of its body."""

    row: int
    kind: str
    tokens: bytes
    prompt_tokens: int
    body: Body | None
    output: str

    @property
    def prompt(self) -> bytes:
        """The prompt's tokens alone."""
        return self.tokens[: 4 * self.prompt_tokens]


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a request: `kind` is template, tools, system, message, generation or output."""

    kind: str
    index: int | None = None
    role: str | None = None

    def __str__(self) -> str:
        """As reports name it.

        >>> str(Place("message", 3, "assistant")), str(Place("tools", 0)), str(Place("generation"))
        ('message 3 assistant', 'tool 0', 'generation prompt')
        """
        match self.kind:
            case "message":
                return f"message {self.index} {self.role or ''}".rstrip()
            case "tools":
                return "tools" if self.index is None else f"tool {self.index}"
            case "generation":
                return "generation prompt"
            case "output":
                return "answer"
            case _:
                return self.kind


@dataclass(frozen=True, slots=True)
class Window:
    """Decoded text around the first difference: `left` is common, `new` and `old` begin with it."""

    new: str
    old: str
    left: int

    @property
    def new_behind(self) -> str:
        """The new side from the first different character on."""
        return self.new[self.left :]

    @property
    def old_behind(self) -> str:
        """The old side from the first different character on."""
        return self.old[self.left :]
