"""Finds and loads a tokenizer: from a folder or the local Hugging Face cache.

Nothing is downloaded, and code that comes with a model is never run.
"""

from __future__ import annotations

from pathlib import Path

from prefixscope.errors import ModelError
from prefixscope.models.loaded_tokenizer import LoadedTokenizer, loaded_tokenizer
from prefixscope.models.quietly import quiet_transformers
from prefixscope.models.tokenizer_cache import keep_tokenizer, kept_tokenizer, tokenizer_key

__all__ = ["load_tokenizer"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt", "spiece.model")


def load_tokenizer(name: str, location: str, revision: str | None) -> LoadedTokenizer:
    """The tokenizer of model `name`: from this user's cache if it was loaded before, else by transformers.

    Raises ModelError naming the model, what is missing and what to do.
    """

    def original() -> LoadedTokenizer:
        return _by_transformers(name, location, revision)

    folder = _folder(name, location, revision)
    if folder is None:
        return original()
    try:
        key = tokenizer_key(folder)
    except OSError:  # a file that can't be read: transformers knows whether it matters
        return original()
    if key is None:
        return original()
    known = kept_tokenizer(key, original)
    if known is None:
        known = original()
        keep_tokenizer(key, known)
    return known


def _folder(name: str, location: str, revision: str | None) -> Path | None:
    """The folder with the files; None for an id of the hub that is not in the local cache."""
    folder = Path(location)
    if folder.is_dir():
        if not any((folder / name).is_file() for name in _TOKENIZER_FILES) and not any(folder.glob("*.tiktoken")):
            raise ModelError(
                f"model {name!r}: folder {location} holds no tokenizer (looked for {', '.join(_TOKENIZER_FILES)})"
            )
        return folder
    if folder.is_file() or location.startswith((".", "/")) or location.count("/") > 1 or "\\" in location:
        raise ModelError(f"model {name!r}: there is no folder {location}")
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(location, "tokenizer_config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def _by_transformers(name: str, location: str, revision: str | None) -> LoadedTokenizer:
    tokenizers = quiet_transformers().AutoTokenizer
    try:
        return loaded_tokenizer(
            tokenizers.from_pretrained(
                location, revision=revision or "main", trust_remote_code=False, local_files_only=True
            )
        )
    except Exception as error:  # every tokenizer class fails in its own way on damaged or missing files
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        if Path(location).is_dir():
            raise ModelError(f"model {name!r}: the tokenizer in {location} can't be loaded: {reason}") from None
        raise ModelError(
            f"model {name!r}: {location!r} is neither a folder nor in the local Hugging Face cache; "
            f"fetch it first (hf download {location}), or give a folder"
        ) from None
