"""Where this user's caches lie: what takes long to make anew and holds nothing of any log.

`PREFIXSCOPE_CACHE` names another folder, or is `off`; else it is `prefixscope` in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

__all__ = ["cache_folder", "keep", "kept", "trim"]

_ABANDONED_AFTER_SECONDS = 3600


def cache_folder() -> Path | None:
    """The folder, which need not exist yet; None where the user wants none."""
    asked = os.environ.get("PREFIXSCOPE_CACHE", "")
    if asked.lower() == "off":
        return None
    if asked:
        return Path(asked)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "prefixscope"


def kept(room: str, name: str) -> bytes | None:
    """What `keep` wrote under that name; None where there is nothing to read."""
    folder = cache_folder()
    if folder is None:
        return None
    path = folder / room / name
    with contextlib.suppress(OSError):
        content = path.read_bytes()
        os.utime(path)  # `trim` takes what was not used for the longest time
        return content
    return None


def keep(room: str, name: str, content: bytes) -> None:
    """Writes a file, whole or not at all. A folder that can't be written is no error: the next run works without."""
    folder = cache_folder()
    if folder is None:
        return
    temporary = folder / room / f".{secrets.token_hex(6)}.tmp"
    try:
        temporary.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary.write_bytes(content)
        os.replace(temporary, folder / room / name)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def trim(room: str, most_bytes: int) -> None:
    """Removes the files that were not used for the longest time, and what an ended process left half written."""
    folder = cache_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        found = sorted(((path.stat(), path) for path in (folder / room).iterdir()), key=lambda one: -one[0].st_mtime)
        total = 0
        for told, path in found:
            total += told.st_size
            abandoned = path.suffix == ".tmp" and time.time() - told.st_mtime > _ABANDONED_AFTER_SECONDS
            if abandoned or (total > most_bytes and path.suffix != ".tmp"):
                path.unlink(missing_ok=True)
