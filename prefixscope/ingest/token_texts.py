"""The text of a few token ids, many times: a table in place of the tokenizer where its decoder is a plain one.

Byte-level decoders put the bytes of all tokens together and read them as UTF-8, so the bytes of every id can be kept.
The tokenizer itself stays the judge: the first texts are all compared, then one in some hundreds; one difference ends
the use of the table.
"""

from __future__ import annotations

from typing import Any

__all__ = ["TokenTexts"]

_ALWAYS_CHECKED = 64
_CHECKED_ONE_IN = 256


class TokenTexts:
    """Decodes for one loaded model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        backend = getattr(getattr(model, "tokenizer", None), "backend", None)
        self._backend = backend if _is_byte_level(backend) else None
        self._bytes: dict[int, bytes] = {}
        self._decoded = 0

    def decode(self, tokens: bytes) -> str:
        """What the model's own `decode` gives."""
        if self._backend is None:
            return str(self._model.decode(tokens))
        ids = memoryview(tokens).cast("I").tolist()
        try:
            text = b"".join([self._bytes[one] for one in ids]).decode("utf-8", "replace")
        except KeyError:
            if not self._learn(ids):
                return str(self._model.decode(tokens))
            text = b"".join([self._bytes[one] for one in ids]).decode("utf-8", "replace")
        self._decoded += 1
        if self._decoded > _ALWAYS_CHECKED and self._decoded % _CHECKED_ONE_IN:
            return text
        right = str(self._model.decode(tokens))
        if right != text:
            self._backend = None
        return right

    def _learn(self, ids: list[int]) -> bool:
        """Takes the bytes of new ids up; false where one is no token (a medium stands for several)."""
        assert self._backend is not None
        for one in {*ids}.difference(self._bytes):
            token = self._backend.id_to_token(one) if one < 1 << 31 else None
            if token is None:
                return False
            try:
                self._bytes[one] = bytes([_BYTE_OF[character] for character in token])
            except KeyError:  # an added token stands for its own text
                self._bytes[one] = token.encode("utf-8", "surrogatepass")
        return True


def _is_byte_level(backend: Any) -> bool:
    return type(getattr(backend, "decoder", None)).__name__ == "ByteLevel"


def _byte_of() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for: printable ones for themselves, the others for
    the next characters from U+0100 on (GPT-2's bytes_to_unicode)."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in own]
    return {chr(value): value for value in own} | {chr(0x100 + place): value for place, value in enumerate(others)}


_BYTE_OF = _byte_of()
