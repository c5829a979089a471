"""Invented text that tokenizers find as hard as real text: prose, code, data, other scripts; seeded.

Words are drawn by a long-tailed law from some tens of thousands of forms, so that common ones repeat as in real text
and a part is always new.
"""

from __future__ import annotations

import random
from typing import Any

# ruff: noqa: SIM905
_COMMON = (
    "the of and to in is that for it as with on be at by this are or from an was which have not but if you we can all "
    "will one when there would more so no about out up into them then its only some could other than time these also "
    "two may first new use over such our after most made each should well through where much before right must even "
    "here own while work part place case week company system program question number hand high different small large "
    "next early young important few public bad same able"
).split()
_STEMS = (
    "harb order bread deliver bak price oven flour custom invoic ship stor account schedul report measur temper docu "
    "request answer token cach prefix block route serv model queue batch weight sampl predict train learn stream index "
    "parse render compil alloc thread process memory kernel driver buffer socket packet signal filter matrix vector "
    "river garden winter market forest bridge letter window engine station island village teacher doctor farmer sailor"
).split()
_BEGINNINGS = ("", "", "", "", "re", "un", "pre", "sub", "over", "inter", "mis", "non")
_ENDINGS = ("", "", "s", "ed", "ing", "er", "ers", "ation", "able", "ly", "ness", "ful", "ment", "al", "ist", "ize")
_HAN = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出"
    "就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所"
)
_ACCENTED = ("café", "Grüße", "naïve", "señor", "Ærø", "smörgås", "façade", "zażółć", "привет", "заказ", "хлеб")
_TYPOGRAPHIC = ("→", "✓", "€", "…", "—", "’")
_EMOJI = ("🙂", "🍞", "👍")


class Writer:
    """Draws text from one seeded source.

    `script` is what the text may hold beside ASCII: "plain" nothing, "typographic" dashes, signs and accents, "mixed"
    also other scripts and emoji.
    """

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.script = "plain"

    def text(self, characters: int) -> str:
        """Paragraphs of mixed kinds, exactly so many characters long."""
        pieces: list[str] = []
        length = 0
        while length < characters:
            foreign = 10 if self.script == "mixed" else 0
            piece = self.draw.choices((self._prose, self._code, self._data, self._han), (75, 15, 10, foreign))[0]()
            pieces.append(piece)
            length += len(piece) + 2
        return "\n\n".join(pieces)[:characters]

    def tool(self) -> dict[str, Any]:
        """A function definition with a few parameters."""
        names = [f"{self.word()}_{self.word()}" for _ in range(self.draw.randint(1, 5))]
        properties = {name: {"type": self.draw.choice(("string", "integer", "number")),
                             "description": self._sentence()} for name in names}  # fmt: skip
        return {
            "type": "function",
            "function": {
                "name": f"{self.word()}_{self.word()}",
                "description": self._sentence(),
                "parameters": {"type": "object", "properties": properties, "required": names[:2]},
            },
        }

    def arguments(self) -> dict[str, Any]:
        return {self.word(): self.draw.randrange(10_000), self.word(): self.word()}

    def word(self) -> str:
        """A common word, or a rarer one put together from its parts."""
        draw = self.draw.random
        if draw() < 0.5:
            return _COMMON[int(len(_COMMON) * draw() ** 2)]
        stem = _STEMS[int(len(_STEMS) * draw() ** 1.5)]
        return _BEGINNINGS[int(len(_BEGINNINGS) * draw() ** 2)] + stem + _ENDINGS[int(len(_ENDINGS) * draw() ** 1.5)]

    def _sentence(self) -> str:
        words = [self.word() for _ in range(self.draw.randint(5, 18))]
        chance = self.draw.random()
        if chance < 0.06 and self.script != "plain":
            words.append(self.draw.choice(_ACCENTED))
        elif chance < 0.2:
            words.append(str(self.draw.randrange(100_000)))
        words[0] = words[0].capitalize()
        if len(words) > 9:
            words[6] += ","
        return " ".join(words) + self.draw.choice((".", ".", ".", "?", "!"))

    def _prose(self) -> str:
        text = " ".join(self._sentence() for _ in range(self.draw.randint(3, 8)))
        if self.script == "plain" or self.draw.random() > 0.2:
            return text
        return text + " " + self.draw.choice(_TYPOGRAPHIC if self.script == "typographic" else _EMOJI)

    def _code(self) -> str:
        lines = [f"def {self.word()}_{self.word()}({self.word()}: int, {self.word()}: str) -> bool:"]
        for _ in range(self.draw.randint(3, 9)):
            indent = "    " * self.draw.randint(1, 3)
            name = f"{self.word()}_{self.word()}"
            number = self.draw.randrange(1000)
            lines.append(f"{indent}if {name}[{number}] != {self.word()}.{self.word()}({number % 7}):  # {self.word()}")
        lines.append(f"    return {self.word()} is not None")
        return "\n".join(lines)

    def _data(self) -> str:
        rows = [
            f'{{"id": "{self.draw.getrandbits(64):016x}", "{self.word()}": {self.draw.randrange(10**6)}, '
            f'"{self.word()}": "{self.word()} {self.word()}"}}'
            for _ in range(self.draw.randint(2, 6))
        ]
        return "\n".join(rows)

    def _han(self) -> str:
        return "".join(self.draw.choices(_HAN, k=self.draw.randint(20, 60))) + "。"
