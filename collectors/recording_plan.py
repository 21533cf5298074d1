"""What a recording is asked for, and how it went."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from profiler.collectors.sampling import Cost


@dataclass(frozen=True)
class Plan:
    """What is asked for. ``duration``: without a load how long to record, with one when to end it; ``period`` in
    seconds; ``native``: stacks with native frames, for which processes are paused; ``log`` a file, docker:NAME or
    journal:UNIT; ``dcgm`` the address of a DCGM exporter; ``version`` is ours."""

    out: Path
    load: tuple[str, ...] = ()
    duration: float | None = None
    period: float = 1.0
    profile: bool = False
    stacks: bool = False
    native: bool = False
    trace_steps: int = 20
    trace_seconds: float = 10.0
    most_bytes: int = 4 << 30
    log: str | None = None
    dcgm: str | None = None
    version: str = ""


@dataclass
class Outcome:
    """How it went. ``problems`` are what is missing of what was asked for; ``window`` is the measured pass, in seconds
    since the recording began."""

    interrupted: bool = False
    problems: list[str] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    trace: dict[str, object] = field(default_factory=dict)
    window: tuple[float, float] | None = None

    @property
    def measured(self) -> float:
        """Seconds of the measured pass."""
        return 0.0 if self.window is None else self.window[1] - self.window[0]
