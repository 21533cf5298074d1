"""One target under atheris: ``python -m tests.fuzz.one NAME CORPUS [libFuzzer's own options]``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["profiler"], enable_loader_override=False):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Fuzz until the time is over; libFuzzer ends the process."""
    name = sys.argv.pop(1)
    check = TARGETS[name]
    # In memory where the system has that: a file is written for every input.
    room = Path("/dev/shm")
    folder = tempfile.mkdtemp(dir=room if room.is_dir() else None)
    # Two readers go by the name too.
    path = Path(folder) / {"manifest": "run.json", "command_text": "server-command.txt"}.get(name, "input")
    atheris.Setup(sys.argv, lambda data: check(data, path))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
