"""HolisticTraceAnalysis in an environment of its own, made when first asked for and kept between runs (500 MB)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ("HolisticTraceAnalysis==0.5.0", "msgspec", "isal", "backports.zstd")
# Taken before the tests give the product a cache folder of its own.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "serving-profiler" / "peers"


class NotInstalled(Exception):
    """Why the environment could not be made."""


def hta_python() -> Path:
    """The interpreter of an environment that has HTA. Raises NotInstalled."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = CACHE / f"{REQUIREMENTS[0].replace('==', '-')}-python{version}"
    python = folder / "bin" / "python"
    done = folder / "complete"
    if not done.exists():
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS)
        done.touch()
    return python


def hta_environment() -> dict[str, str]:
    """Variables under which HTA finds our checkout and keeps the nanoseconds that it would round away."""
    return os.environ | {"PYTHONPATH": str(ROOT), "HTA_DISABLE_NS_ROUNDING": "1"}


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise NotInstalled(f"{' '.join(command)}: {said}")
