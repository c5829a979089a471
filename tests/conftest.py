"""Tests keep caches of their own, beside the other things that take long to make."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["PREFIXSCOPE_CACHE"] = str(Path(__file__).resolve().parents[1] / ".cache" / "user")
