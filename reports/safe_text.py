"""Text from files is data: it is shown as it is, and it can't steer a terminal or reorder a line."""

from __future__ import annotations

import unicodedata
from typing import Final

_SPACES: Final = frozenset("\t\n\v\f\r\x85\u2028\u2029")
_CONTROL_PICTURES: Final = 0x2400
_DELETE: Final = 0x7F
_LIMIT: Final = 4000


def plain(text: str, limit: int = _LIMIT) -> str:
    """``text`` on one line, with every control, bidi and other invisible character made visible.

    C0 controls become their pictures (``␛``), the rest is spelled out (``⟨U+202E⟩``), lone surrogates become ``�``.
    Texts longer than ``limit`` are cut and end in ``…``.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(character if character.isprintable() else _visible(character) for character in cut)


def _visible(character: str) -> str:
    code = ord(character)
    category = unicodedata.category(character)
    if character in _SPACES or category == "Zs":
        return " "
    if code < ord(" "):
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return "␡"
    if category == "Cs":
        return "\ufffd"
    return f"⟨U+{code:04X}⟩"
