"""Python object texts in server logs (``Args(a=1, b=Path('/x'))``, ``<Mode.FULL: 2>``), read without evaluating."""

from __future__ import annotations

import ast
import re
from typing import Final

LONGEST: Final = 1 << 18
DEEPEST: Final = 40
_TOKEN: Final = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|<[^<>]*>|[\[\](){}]|.", re.S)
_ENUM: Final = re.compile(r"<[\w.]*?(\w+)(?::[^<>]*)?>")


def read(text: str) -> object | None:
    """Plain values of the object text at the start of ``text``: a call becomes a mapping of its keyword arguments,
    a name its text, an enumeration member its name. None where the text is no such object or is cut."""
    source = _balanced(text)
    if source is None:
        return None
    try:
        return _plain(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _balanced(text: str) -> str | None:
    """The text up to the bracket that closes the first one, enumeration members written as strings."""
    parts: list[str] = []
    depth = 0
    for match in _TOKEN.finditer(text[:LONGEST]):
        token = match[0]
        if len(token) > 1 and token[0] == "<":
            member = _ENUM.fullmatch(token)
            token = repr(member[1] if member else token)
        parts.append(token)
        if token in "([{":
            depth += 1
            if depth > DEEPEST:
                return None
        elif token in ")]}":
            depth -= 1
            if depth <= 0:
                return "".join(parts).strip() if depth == 0 else None
    return None


def _plain(node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Dict):
        return {
            str(_plain(key)): _plain(value)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_plain(item) for item in node.elts]
    if isinstance(node, ast.Call):
        if node.keywords:
            return {word.arg: _plain(word.value) for word in node.keywords if word.arg is not None}
        return _plain(node.args[0]) if len(node.args) == 1 else [_plain(item) for item in node.args]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int | float) else ast.unparse(node)
    return ast.unparse(node)
