from collections.abc import Callable
from typing import Any

def read(
    fd: int,
    root: int,
    integers: list[tuple[int, Any]],
    rowid: int,
    text: int,
    codes: Any,
    take: Callable[[int, list[bytes]], object],
    /,
) -> bool: ...
