"""The few ways to fail.

    ProfilerError            something the user has to know; exit status 2
    ├── UsageError           the command was asked for something it can't do
    ├── BadInput             a file can't be read at all: file, place, what was expected, what to do
    └── MissingEvidence      the run lacks what the command needs

They are caught once, in ``profiler.cli``, and printed as one line.
"""

from __future__ import annotations


class ProfilerError(Exception):
    """Base of all errors that are told to the user as one line."""

    exit_code = 2


class UsageError(ProfilerError):
    """The command was asked for something that it can't do."""


class BadInput(ProfilerError):
    """A file that can't be read: ``path: reason (at place). advice``."""

    def __init__(self, path: str, reason: str, advice: str, place: str | None = None) -> None:
        self.path, self.reason, self.advice, self.place = path, reason, advice, place
        where = f" (at {place})" if place else ""
        super().__init__(f"{path}: {reason}{where}. {advice}")


class MissingEvidence(ProfilerError):
    """The run lacks what was asked for: what is missing, and how to get it."""

    def __init__(self, run: str, missing: str, how: str) -> None:
        super().__init__(f"{run}: {missing}. {how}")
