"""Horizontal bars in eighths of a character; plain # where the terminal has no block characters."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

__all__ = ["Bar", "bar_text"]

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar_text(fraction: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar of `fraction` of `width` characters; a part that is not nothing shows at least a sliver.

    >>> bar_text(0.5, 4), bar_text(0.28, 4), bar_text(0.0, 4), bar_text(1e-9, 4), bar_text(0.3, 10, ascii_only=True)
    ('██', '█▏', '', '▏', '###')
    """
    bounded = min(max(fraction, 0.0), 1.0)
    if ascii_only:
        return "#" * (max(round(bounded * width), 1) if bounded else 0)
    eighths = max(round(bounded * width * 8), 1) if bounded else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


class Bar:
    """A bar as a renderable of fixed width."""

    def __init__(self, fraction: float | None, width: int, style: str = "cyan") -> None:
        self._fraction = fraction or 0.0
        self._width = width
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(bar_text(self._fraction, self._width, ascii_only=options.ascii_only), style=self._style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(self._width, self._width)
