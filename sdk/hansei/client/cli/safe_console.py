"""A console of rich that removes control characters from the texts it shows."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from hansei.client.cli.control_characters import remove_control_characters


class SafeConsole(Console):
    """A console whose escape sequences are its own: lessons and outputs of tools cannot send any to the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render an object into segments without control characters, except those that rich itself creates."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield segment._replace(text=remove_control_characters(segment.text))
