"""The characters that no text may send to a terminal."""

from __future__ import annotations

_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_BIDI_CONTROLS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_REMOVED = dict.fromkeys({*_CONTROLS, *_BIDI_CONTROLS} - {ord("\t"), ord("\n")})


def remove_control_characters(text: str) -> str:
    """Return a text without control characters, except tabs and line ends, and controls of the writing direction.

    Lessons and outputs of tools may hold sequences that clear the screen, write the clipboard or reverse a text.
    """
    return text.translate(_REMOVED)
