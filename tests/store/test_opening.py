"""Opening a run: which files belong to it, what each is taken for, whose word counts, and what is kept."""

from __future__ import annotations

import dataclasses
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from profiler import open_run, registry
from profiler.collectors.torch_trace.reader import FORMAT
from profiler.errors import UsageError
from profiler.model.extension import Engine, Format, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading, Run
from profiler.model.trace import EventTable
from profiler.store import cache, folder, opening
from profiler.store.folder import files_of
from profiler.store.formats import Formats
from profiler.store.opening import Sent
from tests.strategies import ROOT, Built, document, event_texts, expected, rows_of, small_trace, written

EVENTS = small_trace()


def assert_same(one: object, two: object, where: str = "run") -> None:
    """Equal all the way down: every field, every column and its type."""
    if isinstance(one, np.ndarray):
        assert isinstance(two, np.ndarray) and one.dtype == two.dtype, where
        assert np.array_equal(one, two, equal_nan=one.dtype.kind == "f"), where
    elif dataclasses.is_dataclass(one):
        assert type(one) is type(two), where
        for field in (field for field in dataclasses.fields(one) if field.compare):
            assert_same(getattr(one, field.name), getattr(two, field.name), f"{where}.{field.name}")
    elif isinstance(one, tuple | list):
        assert isinstance(two, tuple | list) and len(one) == len(two), where
        for i, (x, y) in enumerate(zip(one, two, strict=True)):
            assert_same(x, y, f"{where}[{i}]")
    elif isinstance(one, dict):
        assert isinstance(two, dict) and one.keys() == two.keys(), where
        for key in one:
            assert_same(one[key], two[key], f"{where}[{key!r}]")
    elif isinstance(one, float) and one != one:
        assert isinstance(two, float) and two != two, where
    else:
        assert one == two, where


# ------------------------------------------------------------------------------------------------------------- folders
def walked(path: Path) -> tuple[list[str], list[Problem]]:
    problems: list[Problem] = []
    return [str(p.relative_to(path)) for p in files_of(path, problems)], problems


def test_files_come_at_any_depth_in_a_stable_order(tmp_path: Path) -> None:
    for name in ("b/2", "b/1", "a", "b/c/d/e/f/g/deep", ".hidden", "B"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    files, problems = walked(tmp_path)
    assert files == [".hidden", "B", "a", "b/1", "b/2", "b/c/d/e/f/g/deep"] and problems == []


def test_our_own_and_version_control_folders_are_passed_over(tmp_path: Path) -> None:
    for name in (".profiler/x", ".git/HEAD", "a/__pycache__/m.pyc", "kept"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert walked(tmp_path) == (["kept"], [])


def test_a_loop_of_links_is_followed_once_and_said(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_text("x")
    (tmp_path / "a/up").symlink_to(tmp_path)
    (tmp_path / "a/self").symlink_to(tmp_path / "a")
    files, problems = walked(tmp_path)
    assert files == ["a/file"]
    assert {p.file for p in problems} == {"a/up", "a/self"} and all("already read" in p.detail for p in problems)


def test_broken_links_and_pipes_are_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files, problems = walked(tmp_path)
    assert files == ["link", "real"] and [p.file for p in problems] == ["gone", "itself", "pipe"]


def test_a_link_to_a_folder_elsewhere_is_part_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/trace").write_text("x")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/traces").symlink_to(tmp_path / "elsewhere")
    assert walked(tmp_path / "run") == (["traces/trace"], [])


def test_a_folder_that_cannot_be_listed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locked").mkdir()
    (tmp_path / "kept").write_text("x")
    listed = os.scandir

    def refusing(path: str | os.PathLike[str]) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refusing)
    files, problems = walked(tmp_path)
    assert files == ["kept"]
    assert [(p.file, p.severity) for p in problems] == [("locked", "error")]


def test_a_very_deep_tree_is_walked(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 1500)
    path = tmp_path
    for _ in range(1500):
        path = path / "d"
        path.mkdir()
    (deep / "file").write_text("x")
    assert len(walked(tmp_path)[0]) == 1
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # too deep for shutil too


def test_too_many_files_are_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_FILES", 3)
    for i in range(4):
        (tmp_path / str(i)).write_text("x")
    with pytest.raises(Exception, match="more than 3 files"):
        walked(tmp_path)


def test_a_single_file_is_a_run(tmp_path: Path) -> None:
    path = written(EVENTS, tmp_path / "one.pt.trace.json.gz")
    (tmp_path / "other.json").write_text("not part of it")
    run = open_run(path)
    assert [f.path for f in run.files] == ["one.pt.trace.json.gz"]
    assert run.name == "one.pt.trace.json.gz" and rows_of(run.traces[0]) == expected(EVENTS)


def test_an_empty_folder_is_an_empty_run(tmp_path: Path) -> None:
    run = open_run(tmp_path)
    assert (run.files, run.traces, run.problems, dict(run.facts)) == ((), (), (), {})


def test_nothing_at_the_path_is_a_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        open_run(tmp_path / "nowhere")


def test_a_file_name_that_is_not_utf8_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CACHED_FROM", 0)
    written(EVENTS, Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.pt.trace.json")))
    for _ in range(2):
        assert rows_of(open_run(tmp_path).traces[0]) == expected(EVENTS)


# ------------------------------------------------------------------------------------------------- recognition, merging
@dataclasses.dataclass(frozen=True)
class Stub:
    """A format that is as sure as it is told and says one fact."""

    name: str
    sure: dict[str, float]
    fact: Fact[object] | None = None
    version: int = 1

    def sniff(self, head: bytes, name: str) -> float:
        del head
        return self.sure.get(name, 0.0)

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        del source, engines
        return Reading(facts={} if self.fact is None else {"engine.name": self.fact})


def stubbed(path: Path, *formats: Format, progress: Callable[[str], None] | None = None) -> Run:
    def unlabelled(reading: Reading, engines: Sequence[Engine]) -> Reading:
        return reading

    return opening.open_run(path, Formats((), formats), (), unlabelled, registry.redacted, progress)


def test_the_surest_format_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    run = stubbed(tmp_path, Stub("unsure", {"x": 0.2}), Stub("sure", {"x": 0.9}), Stub("no", {}))
    assert [(f.format, f.read) for f in run.files] == [("sure", False)]


def test_what_no_format_wants_is_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    run = stubbed(tmp_path, Stub("no", {}))
    assert [(f.format, f.read, len(f.problems)) for f in run.files] == [("unknown", False, 1)]
    assert run.problems == run.files[0].problems


@pytest.mark.parametrize(
    ("first", "second", "wins"),
    [
        (Fact("guessed", "1", True), Fact("stated", "2", False), "stated"),
        (Fact("stated", "1", False), Fact("guessed", "2", True), "stated"),
        (Fact("early", "1", False), Fact("late", "2", False), "early"),
        (Fact("early", "1", True), Fact("late", "2", True), "early"),
    ],
)
def test_what_is_stated_wins_over_what_is_inferred_and_the_earlier_among_equals(
    first: Fact[object], second: Fact[object], wins: str, tmp_path: Path
) -> None:
    (tmp_path / "1").write_text("x")
    (tmp_path / "2").write_text("x")
    run = stubbed(tmp_path, Stub("one", {"1": 1.0}, first), Stub("two", {"2": 1.0}, second))
    assert run.fact("engine.name") == wins and run.fact("absent") is None


def test_progress_names_every_file_before_it_is_read(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text("x")
    seen: list[str] = []
    stubbed(tmp_path, Stub("no", {}), progress=seen.append)
    assert seen == ["a", "b"]


def test_an_unreadable_file_is_a_problem_of_the_run_and_not_its_end(tmp_path: Path) -> None:
    written(EVENTS, tmp_path / "good.pt.trace.json")
    (tmp_path / "bad.pt.trace.json").write_text('{"schemaVersion": 1, "deviceProperties": [], "ph": 1')
    run = open_run(tmp_path)
    assert len(run.traces) == 1
    record = {f.path: f for f in run.files}["bad.pt.trace.json"]
    assert record.read is False and [p.severity for p in record.problems] == ["error"]


# --------------------------------------------------------------------------------------------------------------- cache
@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small files are cached too; the list names each file that is really read."""
    monkeypatch.setattr(opening, "CACHED_FROM", 0)
    reads: list[str] = []
    kind = type(FORMAT)
    original = kind.read

    def counting(self: object, source: Source, engines: Sequence[Engine]) -> Reading:
        reads.append(source.name)
        return original(self, source, engines)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "read", counting)
    return reads


def damaged_trace(path: Path) -> Path:
    """A trace with something to say in every field: problems, a base, odd names, labels, no rank."""
    shapes: dict[str, object] = {"Input Dims": [[4, 5], []], "Input type": ["float", ""]}
    call: dict[str, object] = {"correlation": 987_654}
    odd = (Built("cpu_op", "日本 \\ \U0001f600", 5, 5), Built("cpu_op", "", 7, 0))
    collective = Built("user_annotation", "nccl:all_reduce", 9, 10, args=shapes)
    texts = event_texts((*EVENTS, *odd, collective, Built("cuda_runtime", "cudaLaunchKernel", 10, 2, args=call)))
    texts[3] = texts[3].replace('"name": "', '"name": "x" ')
    path.write_bytes(document(texts, base=1_700_000_000_000_000_000)[:-5])
    return path


def test_the_second_opening_equals_the_first(tmp_path: Path, cached: list[str]) -> None:
    damaged_trace(tmp_path / "x.pt.trace.json")
    first = open_run(tmp_path)
    second = open_run(tmp_path)
    assert cached == ["x.pt.trace.json"]
    assert first.traces[0].labels and first.traces[0].base and len(first.problems) >= 1
    assert first.traces[0].messages[987_654].sent == 80
    assert first.traces[0].messages == second.traces[0].messages
    assert_same(first, second)


def test_a_trace_without_events_comes_back_the_same(tmp_path: Path, cached: list[str]) -> None:
    (tmp_path / "x.pt.trace.json").write_bytes(document([]))
    assert_same(open_run(tmp_path), open_run(tmp_path))
    assert len(cached) == 1


def test_a_large_trace_is_kept_without_being_asked(tmp_path: Path) -> None:
    events = small_trace(600)
    written(events, tmp_path / "x.pt.trace.json")
    assert (tmp_path / "x.pt.trace.json").stat().st_size > opening.CACHED_FROM
    first = open_run(tmp_path)
    assert len(list((tmp_path / ".profiler").glob("*.columns"))) == 1
    assert_same(first, open_run(tmp_path))
    assert rows_of(first.traces[0]) == expected(events)


def test_a_changed_file_is_read_anew(tmp_path: Path, cached: list[str]) -> None:
    path = written(EVENTS, tmp_path / "x.pt.trace.json")
    open_run(tmp_path)
    later = small_trace(start=2_000_000)
    written(later, path)
    assert rows_of(open_run(tmp_path).traces[0]) == expected(later) and len(cached) == 2


def test_a_file_of_equal_size_changed_later_is_read_anew(tmp_path: Path, cached: list[str]) -> None:
    path = written(EVENTS, tmp_path / "x.pt.trace.json")
    open_run(tmp_path)
    state = path.stat()
    path.write_bytes(path.read_bytes().replace(b"aten::work", b"aten::play"))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert "aten::play" in open_run(tmp_path).traces[0].names and len(cached) == 2


def test_another_version_of_the_reader_reads_anew(
    tmp_path: Path, cached: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(EVENTS, tmp_path / "x.pt.trace.json")
    open_run(tmp_path)
    monkeypatch.setattr(type(FORMAT), "version", FORMAT.version + 1)
    monkeypatch.setattr(registry, "code_of", lambda *_: "a reader's version is part of its code")
    open_run(tmp_path)
    monkeypatch.setattr(cache, "VERSION", cache.VERSION + 1)
    open_run(tmp_path)
    assert len(cached) == 3


@pytest.mark.parametrize("suffix", [".columns", ".json"])
@pytest.mark.parametrize("damage", [b"", b"garbage", b"{}", None])
def test_a_damaged_table_is_ignored(suffix: str, damage: bytes | None, tmp_path: Path, cached: list[str]) -> None:
    written(EVENTS, tmp_path / "x.pt.trace.json")
    first = open_run(tmp_path)
    kept = next((tmp_path / ".profiler").glob(f"*{suffix}"))
    kept.write_bytes(kept.read_bytes()[:-20] if damage is None else damage)
    assert_same(first, open_run(tmp_path))
    assert len(cached) == 2


def test_deleting_what_is_derived_loses_nothing(tmp_path: Path, cached: list[str]) -> None:
    damaged_trace(tmp_path / "x.pt.trace.json")
    first = open_run(tmp_path)
    shutil.rmtree(tmp_path / ".profiler")
    assert_same(first, open_run(tmp_path))


def test_a_run_that_cannot_be_written_to_uses_the_users_cache_and_is_left_alone(
    tmp_path: Path, cached: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, user = tmp_path / "run", tmp_path / "user"
    written(EVENTS, run / "x.pt.trace.json")
    run.chmod(0o555)
    monkeypatch.setenv("XDG_CACHE_HOME", str(user))
    before = run.stat().st_mtime_ns
    first, second = open_run(run), open_run(run)
    assert_same(first, second)
    assert len(cached) == 1 and len(list(user.rglob("*.columns"))) == 1
    assert [p.name for p in run.iterdir()] == ["x.pt.trace.json"] and run.stat().st_mtime_ns == before
    run.chmod(0o755)


def test_where_nothing_can_be_kept_the_run_is_read_all_the_same(tmp_path: Path, cached: list[str]) -> None:
    written(EVENTS, tmp_path / "x.pt.trace.json")
    (tmp_path / ".profiler").write_text("a file stands where the folder would")
    for _ in range(2):
        assert rows_of(open_run(tmp_path / "x.pt.trace.json").traces[0]) == expected(EVENTS)
    assert len(cached) == 2


def test_names_with_half_a_surrogate_pair_can_be_kept(tmp_path: Path, cached: list[str]) -> None:
    texts = event_texts((*EVENTS, Built("cpu_op", "half \ud83d pair", 5, 5)))
    (tmp_path / "x.pt.trace.json").write_bytes(document(texts))
    assert_same(open_run(tmp_path), open_run(tmp_path))


def test_the_cache_is_never_part_of_the_run(tmp_path: Path, cached: list[str]) -> None:
    written(EVENTS, tmp_path / "x.pt.trace.json")
    open_run(tmp_path)
    assert [f.path for f in open_run(tmp_path).files] == ["x.pt.trace.json"]


def test_every_column_is_kept(tmp_path: Path, cached: list[str]) -> None:
    written(EVENTS, tmp_path / "x.pt.trace.json")
    first, second = open_run(tmp_path).traces[0].events, open_run(tmp_path).traces[0].events
    for name in EventTable.__dataclass_fields__:
        assert np.array_equal(getattr(first, name), getattr(second, name)) and len(getattr(first, name)) == len(EVENTS)


def test_no_two_built_in_formats_share_a_key_of_the_cache() -> None:
    keys = [(f.name, f.version) for f in registry.formats()]
    assert sorted(keys) == sorted(set(keys))


# ---------------------------------------------------------------------------------------- from one process to another
@pytest.mark.parametrize("kept", [True, False])
def test_a_run_arrives_as_it_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    monkeypatch.setattr(opening, "CACHED_FROM", 0 if kept else 1 << 30)
    written(EVENTS, tmp_path / "x.pt.trace.json")
    run = open_run(tmp_path)
    assert (run.traces[0].kept is not None) == kept
    sent = pickle.dumps(Sent(run))
    assert (run.traces[0].events.start.tobytes() in sent) != kept
    assert_same(pickle.loads(sent).run, run)


@pytest.mark.parametrize("sample", sorted((ROOT / "tests" / "samples").iterdir()), ids=lambda path: path.name)
def test_every_kind_of_file_can_be_sent(sample: Path) -> None:
    run = open_run(sample)
    assert_same(pickle.loads(pickle.dumps(Sent(run))).run, run)


def test_a_trace_whose_columns_are_gone_does_not_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CACHED_FROM", 0)
    written(EVENTS, tmp_path / "x.pt.trace.json")
    run = open_run(tmp_path)
    sent = pickle.dumps(Sent(run))
    assert run.traces[0].kept is not None
    columns = run.traces[0].kept.with_suffix(".columns")
    columns.write_bytes(columns.read_bytes()[:-1])
    with pytest.raises(OSError, match="damaged"):
        pickle.loads(sent)
