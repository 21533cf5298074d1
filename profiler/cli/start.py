"""Entry point of the console script. Imports nothing by itself: an interrupt is one line from the first moment on."""

from __future__ import annotations

import sys

EXIT_INTERRUPTED = 130


def main() -> None:
    """``profiler.cli.main.main``, with interrupts that come while it is still being loaded."""
    try:
        from profiler.cli.main import main as started

        started()
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        sys.exit(EXIT_INTERRUPTED)
