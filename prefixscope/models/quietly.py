"""Imports transformers without what it prints on the way: that it found no PyTorch, and advice on its classes."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["quiet_transformers"]


def quiet_transformers() -> Any:
    """The module `transformers`, silent below critical errors."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    import transformers
    from transformers.utils import logging

    logging.set_verbosity(logging.CRITICAL)
    return transformers
