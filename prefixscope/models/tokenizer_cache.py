"""Tokenizers as transformers loaded them, kept on disk: most of the start-up of a run is finding that out again.

What is kept is the backend that transformers made, serialised, under a hash of every file it may have read and of the
versions that read them. It holds nothing of any log. A kept backend is only used if it gives the ids of a fixed text
that the original gave.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
import xxhash

from prefixscope.models.loaded_tokenizer import LoadedTokenizer, TokenizerFacts
from prefixscope.user_cache import keep, kept, trim

__all__ = ["keep_tokenizer", "kept_tokenizer", "tokenizer_key"]

_FORMAT = 1
_ROOM = "tokenizers"
_MOST_BYTES = 256 << 20
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".npz", ".ckpt")
"""Files that no tokenizer is made of; all others may be what one is made of, whatever they are called."""
_MOST_READ_BYTES = 512 << 20
_PROBE = (
    "The quick brown fox, 12 345.678 times; don't  stop\n\n\tdef f(x):\r\n    return {'a': [x**2]}  # caf\u00e9 "
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0 \u4f60\u597d\uff01 \U0001f468\u200d\U0001f469\u200d\U0001f467 "
    "e\u0301\u0323 \u0645\u0631\u062d\u0628\u0627 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u00a0\u2003\u3000x   "
)


def tokenizer_key(folder: Path) -> str | None:
    """One name for the files in a tokenizer's folder and for the libraries that load them; None for a folder that holds
    more than can be read in passing.
    """
    files = list(_files(folder))
    if sum(path.stat().st_size for path in files) > _MOST_READ_BYTES:
        return None
    digest = xxhash.xxh3_128()
    for part in (str(_FORMAT), version("transformers"), version("tokenizers")):
        digest.update(part.encode() + b"\0")
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return f"{digest.hexdigest()}.json"


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in _WEIGHTS and path.is_file():
            yield path
    more = folder / "additional_chat_templates"
    if more.is_dir():
        yield from sorted(path for path in more.iterdir() if path.is_file())


def kept_tokenizer(key: str, original: Callable[[], LoadedTokenizer]) -> LoadedTokenizer | None:
    """The tokenizer kept under that key; None where there is none. `original` loads it anew, should the kept backend
    turn out to give other ids.
    """
    content = kept(_ROOM, key)
    if content is None:
        return None
    try:
        head, _, serialised = content.partition(b"\n")
        told = orjson.loads(head)
        if told["checksum"] != xxhash.xxh3_64_hexdigest(serialised):
            return None
        text = serialised.decode()
        return LoadedTokenizer(TokenizerFacts(**told["facts"]), text, partial(_backend, text, told["probe"], original))
    except (ValueError, LookupError, TypeError):  # another format
        return None


def _backend(serialised: str, probe: list[list[int]], original: Callable[[], LoadedTokenizer]) -> Any:
    from tokenizers import Tokenizer

    with contextlib.suppress(Exception):
        backend = Tokenizer.from_str(serialised)
        if _probed(backend) == probe:
            return backend
    return original().backend


def keep_tokenizer(key: str, tokenizer: LoadedTokenizer) -> None:
    """Keeps a tokenizer for the next run; those without a serialised backend are not kept."""
    if tokenizer.serialised is None:
        return
    serialised = tokenizer.serialised.encode()
    told = {
        "facts": asdict(tokenizer.facts),
        "probe": _probed(tokenizer.backend),
        "checksum": xxhash.xxh3_64_hexdigest(serialised),
    }
    keep(_ROOM, key, orjson.dumps(told) + b"\n" + serialised)
    trim(_ROOM, _MOST_BYTES)


def _probed(backend: Any) -> list[list[int]]:
    """Ids of a text with every kind of character, alone and behind each special token, and the special tokens put
    around it.
    """
    specials = [token.content for _, token in sorted(backend.get_added_tokens_decoder().items())][:64]
    texts = (_PROBE, "x".join(specials), " ".join(f"{special}\u0301 {special}\n" for special in specials), "")
    return [backend.encode(text, add_special_tokens=special).ids for text in texts for special in (False, True)]
