"""One browser a module, and a folder for its pictures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("websocket", reason="websocket-client is not installed")

from tests.browser import chromium


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    """One browser for the module."""
    with chromium.browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Where screenshots go: kept when BROWSER_SHOTS names a folder."""
    folder = Path(os.environ.get("BROWSER_SHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
