"""What files were taken for is believed for the same file and the same code, and spares importing every format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from profiler import registry
from profiler.model.extension import Engine, Source
from profiler.model.fact import Fact
from profiler.model.run import Reading, Run
from profiler.store import opening
from profiler.store.code import code_of
from profiler.store.formats import Formats
from tests.strategies import ROOT, small_trace, written

LONG_AGO = 1_700_000_000_000_000_000


@dataclass
class Counted:
    """A format of files that begin with its name, which counts what it is asked."""

    name: str
    version: int = 1
    sure: float = 0.5
    sniffed: list[str] = field(default_factory=list)

    def sniff(self, head: bytes, name: str) -> float:
        self.sniffed.append(name)
        return self.sure if head.startswith(self.name.encode()) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        with source.open() as stream:
            return Reading(facts={"engine.name": Fact(stream.read().decode(), self.name, inferred=False)})


@dataclass
class House:
    """A run folder, the formats that know its files, and how it is opened with what code."""

    run: Path
    one: Counted = field(default_factory=lambda: Counted("one"))
    two: Counted = field(default_factory=lambda: Counted("two"))
    code: str | None = "1"

    def opened(self, *added: Counted) -> Run:
        formats = Formats(("rooms.ONE", "rooms.MORE"), added, lambda: self.code)
        return opening.open_run(self.run, formats, (), lambda reading, _: reading, registry.redacted)

    def asked(self, *added: Counted) -> list[str]:
        """The names of the files that had to be looked at."""
        self.one.sniffed.clear()
        self.opened(*added)
        return list(self.one.sniffed)

    def write(self, name: str, text: str, at: int = LONG_AGO) -> Path:
        path = self.run / name
        path.write_text(text)
        os.utime(path, ns=(at, at))
        return path

    @property
    def kept(self) -> Path:
        (path,) = (self.run / ".profiler").glob("*.formats")
        return path


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(opening, "CACHED_FROM", 0)
    house = House(tmp_path)
    monkeypatch.setitem(sys.modules, "rooms", SimpleNamespace(ONE=house.one, MORE=(house.two,)))
    house.write("a", "one")
    house.write("b", "two")
    return house


def taken(run: Run) -> dict[str, str]:
    return {file.path: file.format for file in run.files}


def test_a_file_is_looked_at_once(house: House) -> None:
    assert taken(house.opened()) == {"a": "one", "b": "two"}
    assert house.asked() == [] and taken(house.opened()) == {"a": "one", "b": "two"}


def test_a_changed_file_is_looked_at_again(house: House) -> None:
    house.opened()
    house.write("a", "two", LONG_AGO + 1)
    assert house.asked() == ["a"] and taken(house.opened()) == {"a": "two", "b": "two"}


def test_a_new_file_is_looked_at_and_a_moved_one_too(house: House) -> None:
    house.opened()
    house.write("c", "two")
    assert house.asked() == ["c"] and house.asked() == []
    (house.run / "c").rename(house.run / "d")
    assert house.asked() == ["d"]


def test_a_file_that_may_still_change_unseen_is_not_remembered(house: House) -> None:
    house.opened()
    house.write("a", "one", 2**62)
    assert [house.asked(), house.asked()] == [["a"], ["a"]]


def test_other_code_looks_at_every_file(house: House) -> None:
    house.opened()
    house.two.sure, house.two.name, house.code = 0.9, "on", "2"
    assert house.asked() == ["a", "b"] and taken(house.opened())["a"] == "on"
    house.code = None
    assert [house.asked(), house.asked()] == [["a", "b"], ["a", "b"]]


def test_a_format_of_another_package_is_asked_each_time(house: House) -> None:
    house.opened()
    theirs = Counted("on", sure=0.9)
    assert [house.asked(theirs), house.asked(theirs)] == [["a", "b"], ["a", "b"]]
    assert taken(house.opened(theirs)) == {"a": "on", "b": "two"}
    assert taken(house.opened()) == {"a": "one", "b": "two"}


@pytest.mark.parametrize("damage", [b"", b"garbage", b"{}", b'{"code": "1", "files": {"x": 1}}'])
def test_what_is_damaged_is_ignored(damage: bytes, house: House) -> None:
    house.opened()
    house.kept.write_bytes(damage)
    assert house.asked() == ["a", "b"] and house.asked() == []


@pytest.mark.parametrize("forged", [{"place": "rooms_of_others.ONE"}, {"name": "three"}])
def test_what_is_forged_imports_nothing_and_is_said(
    forged: dict[str, str], house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.opened()
    kept = json.loads(house.kept.read_text())
    kept["files"] = {key: {**one, **forged} for key, one in kept["files"].items()}
    house.kept.write_text(json.dumps(kept))
    (house.run / "rooms_of_others.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(house.run))
    said = {file.path: file.problems[0].detail for file in house.opened().files if file.format == "unreadable"}
    assert said.keys() == {"a", "b"} and all("Delete .profiler" in detail for detail in said.values())


def test_a_small_run_is_left_as_it_is(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CACHED_FROM", 1 << 20)
    house.opened()
    assert sorted(path.name for path in house.run.iterdir()) == ["a", "b"]


def test_one_file_of_a_run_is_remembered_apart(house: House) -> None:
    house.opened()
    house.run = house.run / "a"
    assert [house.asked(), house.asked()] == [["a"], []]
    house.run = house.run.parent
    assert house.asked() == []


def test_the_second_opening_of_a_run_imports_the_formats_of_its_small_files_only(tmp_path: Path) -> None:
    written(small_trace(600), tmp_path / "x.pt.trace.json")
    (tmp_path / "run.json").write_text('{"engine": {"name": "vllm"}}')
    for path in tmp_path.iterdir():
        os.utime(path, ns=(LONG_AGO, LONG_AGO))
    code = "import sys, profiler\nrun = profiler.open_run(sys.argv[1])\nprint(*[f.format for f in run.files], *sys.modules)"

    def words() -> list[str]:
        command = [sys.executable, "-c", code, str(tmp_path)]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()

    first, second = words(), words()
    assert first[:3] == second[:3]
    rooms = {place.rpartition(".")[0] for place in registry.PLACES}
    assert rooms <= set(first) and rooms & set(second) == {"profiler.collectors.manifest"}


def test_every_place_is_that_of_formats() -> None:
    assert all(callable(one.sniff) and callable(one.read) and one.version for one in registry.formats())
    assert len({one.name for one in registry.formats()}) == len(list(registry.formats())) >= len(registry.PLACES)
    assert registry.formats().code() == registry.formats().code() is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda package: (package / "inner.py").write_text("x = 2\n"),
        lambda package: (package / "rows.tsv").write_text("b\n"),
        lambda package: (package / "new.py").write_text(""),
        lambda package: (package / "inner.py").rename(package / "other.py"),
    ],
)
def test_code_is_told_by_its_source(
    change: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "told_by_source"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "inner.py").write_text("x = 1\n")
    (package / "rows.tsv").write_text("a\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    code = code_of.__wrapped__
    before = code("told_by_source")
    (package / "notes.txt").write_text("no code")
    assert before is not None and code("told_by_source") == before
    change(package)
    assert code("told_by_source") not in (None, before)
    assert code("told_by_source", "no_such_package") is None
