"""Reproducible chance: every choice in the sample logs comes from here.

Only `random()` of a seeded generator is used, the one sequence that Python promises to keep from version to version.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

NUMBER = re.compile(r"\{number\}")


class Draw:
    """A stream of choices that depends on nothing but its name."""

    def __init__(self, name: str) -> None:
        self._generator = random.Random(name)

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self._generator.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._generator.random() < probability

    def one_of(self, choices: Sequence[T]) -> T:
        """One of the choices, all equally likely."""
        return choices[self.integer(0, len(choices) - 1)]

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        """All of the choices in a new order."""
        rest = list(choices)
        return [rest.pop(self.integer(0, len(rest) - 1)) for _ in range(len(rest))]

    def waiting_ms(self, mean_ms: int) -> int:
        """An exponentially distributed waiting time, at most eight times its mean."""
        return min(8 * mean_ms, round(-mean_ms * math.log(1.0 - self._generator.random())))

    def hexadecimal(self, digits: int) -> str:
        """That many hexadecimal digits."""
        return "".join(self.one_of("0123456789abcdef") for _ in range(digits))

    def filled(self, sentence: str, values: Mapping[str, str]) -> str:
        """The sentence with its {fields} filled in; every {number} gets a number of its own."""
        numbered = NUMBER.sub(lambda _: str(self.integer(2, 60)), sentence)
        return numbered.format_map(values)
