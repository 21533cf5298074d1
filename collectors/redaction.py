"""Secrets never leave a reader: whatever is named like one is replaced before anything is stored.

Server answers, environments and command lines carry API keys and tokens. Names decide first; a few well-known shapes
of tokens are caught wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

REDACTED: Final = "[redacted]"
STRONG: Final = frozenset(
    {"password", "passwd", "passphrase", "secret", "secrets", "authorization", "credential", "credentials", "apikey"}
)
WEAK: Final = frozenset({"token", "key", "keys", "auth"})
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PAIRS: Final = ({"api", "key"}, {"access", "key"}, {"access", "token"}, {"private", "key"})
_SHAPES: Final = re.compile(
    r"(?:\bsk-[A-Za-z0-9_-]{12,}|\bhf_[A-Za-z0-9]{12,}|\bgh[pousr]_[A-Za-z0-9]{12,}|\bAKIA[A-Z0-9]{12,}"
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@))"
)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',]+")
_HEADER: Final = re.compile(
    r"(?i)((?:x-)?(?:api[-_]?key|authorization|auth[-_]?token|access[-_]?token)[\"']?\s*[:=]\s*[\"']?)"
    r"(?:(?:bearer|basic)\s+)?[^\s\"',}]+"
)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)=(.*)", re.S)
_JSON_PAIR: Final = re.compile(r"([\"'])([A-Za-z_][\w.-]*)\1(\s*:\s*)([\"'])((?:\\.|(?!\4).)*)\4")


# In free text: NAME=value and --flag value; quotes bound the value where there are any.
_VALUE: Final = r"(\"[^\"]*\"|'[^']*'|[^\s\0\"',;)}\]]+)"
_IN_TEXT: Final = re.compile(r"(?<![\w.-])(--?[A-Za-z][\w-]*(?:=|\s+(?!-))|[A-Za-z_][\w.-]*=)" + _VALUE)


def is_secret_name(name: str) -> bool:
    """Whether a value of this name is a secret; counts of tokens and names of tokenizers are not."""
    words = [word.lower() for word in _WORD.findall(name)]
    if STRONG.intersection(words) or any(pair <= set(words) for pair in _PAIRS):
        return True
    # The word has to end the name (hf_token, watermark_key_b): num_key_value_heads and token_usage are measures.
    tail = words[-2:] if words and len(words[-1]) == 1 else words[-1:]
    return bool(WEAK.intersection(tail))


def redact_text(text: str) -> str:
    """The text without tokens of well-known shapes, ``Bearer`` values and quoted or assigned secrets."""
    text = _HEADER.sub(lambda match: match[1] + REDACTED, _SHAPES.sub(REDACTED, text))
    text = _BEARER.sub(lambda match: f"{match[1]} {REDACTED}", text)
    if "=" in text or "-" in text:
        text = _IN_TEXT.sub(_without_value, text)
    return _JSON_PAIR.sub(
        lambda m: f"{m[1]}{m[2]}{m[1]}{m[3]}{m[4]}{REDACTED}{m[4]}" if is_secret_name(m[2]) else m[0], text
    )


def _without_value(match: re.Match[str]) -> str:
    name = match[1].rstrip("= \t\r\n")
    hidden = is_secret_name(name) and redact(_number(match[2]), name) == REDACTED and match[2] not in REDACTED
    return f"{match[1]}{REDACTED}" if hidden else match[0]


def _number(text: str) -> object:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 19 else text


def redact(value: object, name: str = "") -> object:
    """The value with every secret in it replaced; mappings and lists are walked, the names decide."""
    if isinstance(value, Mapping):
        return {redact_text(str(key)): redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value) and not is_secret_name(name):
            return redact_command(value)
        return [redact(item, name) for item in value]
    secret = bool(name) and is_secret_name(name)
    if isinstance(value, str):
        return REDACTED if secret and value else redact_text(value)
    if secret and isinstance(value, int | float) and not isinstance(value, bool):
        # A number under a strong name may be a PIN; under a weak one it is a size or a count.
        words = {word.lower() for word in _WORD.findall(name)}
        return REDACTED if STRONG & words or any(pair <= words for pair in _PAIRS) else value
    return value


def redact_command(words: Iterable[str]) -> list[str]:
    """A command line, word by word: ``--api-key X``, ``--api-key=X``, ``HF_TOKEN=X`` and headers lose their value."""
    out: list[str] = []
    hiding = False
    for word in words:
        if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            flag, equals, _ = word.partition("=")
            # Words that were quoted together are a text that may begin like a flag.
            named = " " not in flag and is_secret_name(flag)
            hiding = named and not equals
            out.append(f"{flag}={REDACTED}" if equals and named else redact_text(word))
            continue
        if hiding:
            out.append(REDACTED)
            continue
        # A header whose quotes are gone: Authorization: Bearer X.
        if word.endswith(":") and is_secret_name(word):
            hiding = True
            out.append(word)
            continue
        assigned = _ASSIGNMENT.fullmatch(word)
        if assigned and is_secret_name(assigned[1]):
            out.append(f"{assigned[1]}={REDACTED}")
        else:
            out.append(redact_text(word))
    return out
