"""How much of your prefill is repeated work, where the rest goes, and what your engine can really reuse."""

__version__ = "0.1.0"
