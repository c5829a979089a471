"""Block sizes that an attention backend offers: its default, and what it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefixscope.engines.profile import EngineOptions
from prefixscope.errors import OptionError

__all__ = ["Backend", "backend_named", "block_size_for"]


@dataclass(frozen=True, slots=True)
class Backend:
    """`default` tokens per block when nothing is said; accepted are `sizes`, or any `multiple_of` where sizes is empty.

    `sizes` of a backend that takes any multiple are the usual ones, for advice. `forces`: another size that the user
    asks for is silently replaced by the default instead of being refused.
    """

    default: int
    sizes: tuple[int, ...]
    multiple_of: int | None = None
    forces: bool = False

    def accepts(self, size: int) -> bool:
        """Whether the engine starts with this block size."""
        return size in self.sizes or (self.multiple_of is not None and size % self.multiple_of == 0)

    @property
    def offer(self) -> str:
        """The accepted sizes in words."""
        if self.multiple_of is not None:
            return f"multiples of {self.multiple_of}"
        return " or ".join(map(str, self.sizes))


def backend_named(engine: str, name: str, backends: Mapping[str, Backend]) -> Backend:
    """The backend by the engine's own name for it; OptionError names those that are known."""
    known = backends.get(name.lower().replace("-", "_"))
    if known is None:
        raise OptionError(f"--attention-backend {name}: not known for {engine} (known: {', '.join(sorted(backends))})")
    return known


def block_size_for(engine: str, backend: Backend, options: EngineOptions, said: bool) -> tuple[int, tuple[str, ...]]:
    """(block size the engine runs with, what the user should know of it); `said`: backend or platform were named.

    A size that the named backend does not take is an OptionError, as the engine would refuse to start; when the
    backend is only our guess it is used and doubted aloud.
    """
    asked = options.block_size
    if asked is None:
        return backend.default, ()
    if backend.accepts(asked):
        return asked, ()
    if backend.forces:
        return backend.default, (f"{engine} replaces block size {asked} by {backend.default} with this backend",)
    if said:
        raise OptionError(f"--block-size {asked}: {engine} with this backend accepts {backend.offer} only")
    return asked, (f"{engine} usually accepts {backend.offer}, not block size {asked}",)
