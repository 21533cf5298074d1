"""Damaged torch-profiler traces: what is whole is read, what is not is counted and named, and nothing crashes."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler.collectors.engines import ENGINES
from profiler.collectors.torch_trace.reader import FORMAT
from profiler.errors import BadInput
from profiler.model.run import Reading
from profiler.model.trace import Kind
from profiler.store.source import FileSource
from tests.strategies import (
    ROOT,
    Built,
    Row,
    document,
    event_texts,
    expected,
    mutated,
    read_bytes,
    rows_of,
    small_trace,
)

EVENTS = small_trace()
TEXTS = event_texts(EVENTS)
WHOLE = document(TEXTS)
EPOCH = 1_748_000_000_123_456_789  # ns


def problem_about(reading: Reading, kind: str) -> int:
    """The count of the one problem that names ``kind``; its place must be one that a person can find."""
    found = [p for p in reading.problems if f"× {kind}" in p.detail]
    assert len(found) == 1, (kind, reading.problems)
    assert found[0].place is not None and found[0].place.startswith("byte ")
    return found[0].count


def place_of(reading: Reading, kind: str) -> int:
    found = next(p for p in reading.problems if f"× {kind}" in p.detail)
    assert found.place is not None
    match = re.search(r"byte ([\d,]+) ", found.place)
    assert match is not None
    return int(match[1].replace(",", ""))


def without(events: Sequence[Built], *rows: int) -> list[Row]:
    return [event.row for i, event in enumerate(events) if i not in rows]


# ----------------------------------------------------------------------------------------------------------- damage
def test_a_gzip_file_cut_at_60_percent_keeps_every_complete_event(tmp_path: Path) -> None:
    events = small_trace(200)
    texts = event_texts(events)
    data = gzip.compress(document(texts), 6)
    cut = data[: len(data) * 6 // 10]
    visible = zlib.decompressobj(wbits=31).decompress(cut).decode("utf-8", "ignore")
    complete = sum(visible.count(text) for text in set(texts))
    assert 100 < complete < len(events)
    reading = read_bytes(cut, tmp_path, "x.pt.trace.json.gz")
    assert rows_of(reading.traces[0]) == expected(events)[:complete]
    assert any("breaks off" in p.detail and p.severity == "error" for p in reading.problems)
    assert problem_about(reading, "cut") == 1


@pytest.mark.parametrize("start", [0, EPOCH])
@pytest.mark.parametrize("one_line", [False, True])
def test_json_cut_anywhere_keeps_exactly_the_complete_events(one_line: bool, start: int, tmp_path: Path) -> None:
    events = small_trace(1, 1, start)
    texts = event_texts(events, one_line)
    data = document(texts, one_line=one_line)
    ends = []
    position = 0
    for text in texts:
        position = data.index(text.encode(), position) + len(text.encode())
        ends.append(position)
    last_event = range(ends[-2], ends[-1] + 1)
    for cut in sorted({*range(data.index(texts[0].encode()), ends[-1], 11), *last_event}):
        complete = sum(end <= cut for end in ends)
        reading = read_bytes(data[:cut], tmp_path)
        assert rows_of(reading.traces[0]) == expected(events)[:complete], data[cut - 40 : cut]
        assert any(p.severity == "error" for p in reading.problems)


def test_missing_closing_brackets_lose_nothing(tmp_path: Path) -> None:
    for data in (document(TEXTS, ending=False), document(TEXTS, bare=True, ending=False), WHOLE.rstrip()[:-1]):
        assert rows_of(read_bytes(data, tmp_path).traces[0]) == expected(EVENTS)
    assert problem_about(read_bytes(document(TEXTS, ending=False), tmp_path), "cut") == 1


@pytest.mark.parametrize("start", [0, EPOCH])
@pytest.mark.parametrize("which", [0, 10, len(EVENTS) - 1])
def test_an_unescaped_quote_in_a_name_loses_that_event_alone(which: int, start: int, tmp_path: Path) -> None:
    events = small_trace(start=start)
    texts = event_texts(events)
    texts[which] = re.sub(r'"name": "', '"name": "f("quoted") ', texts[which])
    data = document(texts)
    reading = read_bytes(data, tmp_path)
    assert rows_of(reading.traces[0]) == without(events, which)
    assert problem_about(reading, "lost") == 1
    begin = data.index(texts[which].encode())
    assert begin - 8 <= place_of(reading, "lost") <= begin + len(texts[which])


def test_control_characters_in_names_become_spaces(tmp_path: Path) -> None:
    texts = [t.replace("execute_model", "exe\x01cute\x1f_model") for t in TEXTS]
    reading = read_bytes(document(texts), tmp_path)
    assert rows_of(reading.traces[0]) == [
        (k, n.replace("execute_model", "exe cute _model"), *rest) for k, n, *rest in expected(EVENTS)
    ]
    assert problem_about(reading, "control characters") == 6


def test_raw_line_breaks_and_tabs_in_names_are_named_too(tmp_path: Path) -> None:
    texts = [t.replace("execute_model", "exe\ncute\t_model") for t in TEXTS]
    reading = read_bytes(document(texts), tmp_path)
    assert [r[2:] for r in rows_of(reading.traces[0])] == [r[2:] for r in expected(EVENTS)]
    assert problem_about(reading, "control characters") > 0


@pytest.mark.parametrize("start", [0, EPOCH])
def test_bytes_that_are_not_utf8_are_replaced(start: int, tmp_path: Path) -> None:
    events = small_trace(start=start)
    data = document(event_texts(events)).replace(b"execute_model", b"\xf0execute\xff_model")
    reading = read_bytes(data, tmp_path)
    assert [r[2:] for r in rows_of(reading.traces[0])] == [r[2:] for r in expected(events)]
    assert problem_about(reading, "bad UTF-8") == 6


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "nan", "1e999"])
def test_a_duration_that_is_no_number_leaves_its_event_out(value: str, tmp_path: Path) -> None:
    texts = list(TEXTS)
    texts[4] = re.sub(r'"dur": [\d.]+', f'"dur": {value}', texts[4])
    texts[9] = re.sub(r'"ts": [\d.]+', f'"ts": {value}', texts[9])
    reading = read_bytes(document(texts), tmp_path)
    assert rows_of(reading.traces[0]) == without(EVENTS, 4, 9)
    assert any(p.count and ("without a time" in p.detail or "lost" in p.detail) for p in reading.problems)


def test_no_number_among_the_arguments_harms_nothing(tmp_path: Path) -> None:
    texts = [t.replace('"grid": [1, 2, 3]', '"est. achieved occupancy %": NaN, "grid": [NaN, Infinity]') for t in TEXTS]
    assert sum("NaN" in t for t in texts) == 18
    reading = read_bytes(document(texts), tmp_path)
    assert rows_of(reading.traces[0]) == expected(EVENTS)
    assert problem_about(reading, "NaN or Infinity") == 54


def test_a_name_that_says_nan_keeps_its_name_beside_damage(tmp_path: Path) -> None:
    events = [*EVENTS, Built("cpu_op", "clamp(x, NaN, Infinity)", 5, 5), Built("cpu_op", "bad\x01", 5, 5)]
    data = document(event_texts(events)).replace(rb"\u0001", b"\x01")
    assert "clamp(x, NaN, Infinity)" in read_bytes(data, tmp_path).traces[0].names


def test_device_events_without_any_time_are_left_out_and_set_no_start(tmp_path: Path) -> None:
    events = list(small_trace(start=EPOCH))
    kernels = [i for i, e in enumerate(events) if e.cat == "kernel"]
    for i in kernels[::10]:
        events[i] = replace(events[i], start=0, duration=0)
    reading = read_bytes(document(event_texts(events)), tmp_path)
    trace = reading.traces[0]
    assert rows_of(trace) == without(events, *kernels[::10])
    assert int(trace.events.start.min()) >= EPOCH
    assert problem_about(reading, "zero time stamp") == len(kernels[::10])


def test_host_events_at_zero_are_no_damage(tmp_path: Path) -> None:
    events = [Built("cpu_op", "first", 0, 0), *EVENTS]
    assert rows_of(read_bytes(document(event_texts(events)), tmp_path).traces[0]) == expected(events)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("-5", "negative duration"),
        ("-0.001", "negative duration"),
        ("7447000000000000.000", "duration above a week"),
        ("18446744073709551.615", "without a time"),
        ("null", "without a time"),
    ],
)
def test_durations_that_cannot_be_true_are_left_out_and_counted(text: str, kind: str, tmp_path: Path) -> None:
    texts = list(TEXTS)
    for i in (4, 7, 30):
        texts[i] = re.sub(r'"dur": [\d.]+', f'"dur": {text}', texts[i])
    reading = read_bytes(document(texts), tmp_path)
    assert rows_of(reading.traces[0]) == without(EVENTS, 4, 7, 30)
    assert problem_about(reading, kind) == 3


def test_an_event_without_a_duration_is_left_out_and_counted(tmp_path: Path) -> None:
    texts = list(TEXTS)
    texts[5] = re.sub(r', "dur": [\d.]+', "", texts[5])
    reading = read_bytes(document(texts), tmp_path)
    assert rows_of(reading.traces[0]) == without(EVENTS, 5)
    assert problem_about(reading, "without a time") == 1


def test_process_and_thread_ids_may_be_words(tmp_path: Path) -> None:
    texts = [t.replace('"tid": 7', '"tid": "stream 7"').replace('"pid": 4242', '"pid": "Spans"') for t in TEXTS]
    reading = read_bytes(document(texts), tmp_path)
    trace = reading.traces[0]
    assert rows_of(trace) == expected(EVENTS)
    device = trace.events.of(Kind.KERNEL, Kind.MEMCPY)
    assert set(device.device.tolist()) == {0} and set(device.stream.tolist()) == {7}
    assert any(title.startswith("stream 7") for title in trace.threads)


def test_device_events_without_arguments_take_device_and_stream_from_their_lane(tmp_path: Path) -> None:
    events = [replace(e, pid=2, tid=9, args={}) if e.on_device else e for e in EVENTS]
    device = read_bytes(document(event_texts(events)), tmp_path).traces[0].events.of(Kind.KERNEL)
    assert set(device.device.tolist()) == {2} and set(device.stream.tolist()) == {9}


def test_identifiers_as_strings_are_numbers_all_the_same(tmp_path: Path) -> None:
    texts = [re.sub(r'"(device|stream|correlation)": (\d+)', r'"\1": "\2"', t) for t in TEXTS]
    reading = read_bytes(document(texts), tmp_path)
    assert rows_of(reading.traces[0]) == expected(EVENTS)
    assert set(reading.traces[0].events.of(Kind.KERNEL).stream.tolist()) == {7}


@pytest.mark.parametrize("start", [0, EPOCH])
@pytest.mark.parametrize("args", ['"a string"', "[1, 2]", "17", "null"])
def test_arguments_that_are_no_object_cost_only_themselves(args: str, start: int, tmp_path: Path) -> None:
    events = small_trace(start=start)
    texts = event_texts(events)
    which = next(i for i, e in enumerate(events) if e.cat == "kernel")
    texts[which] = re.sub(r'"args": \{.*\}\n', f'"args": {args}\n', texts[which], flags=re.S)
    kept = expected(events)
    kept[which] = (*kept[which][:4], -1)
    assert rows_of(read_bytes(document(texts), tmp_path).traces[0]) == kept


def test_a_name_that_is_a_number_is_read_as_text(tmp_path: Path) -> None:
    texts = list(TEXTS)
    texts[1] = re.sub(r'"name": "[^"]*"', '"name": 17', texts[1])
    kept = expected(EVENTS)
    kept[1] = (kept[1][0], "17", *kept[1][2:])
    assert rows_of(read_bytes(document(texts), tmp_path).traces[0]) == kept


def test_nested_event_lists_are_unwrapped(tmp_path: Path) -> None:
    inner = document(TEXTS).decode()
    for data in ('{"traceEvents": ' + inner + "}", '{"data": ' + inner + "}", '{"traceEvents": [' + inner + "]}"):
        reading = read_bytes(data.encode(), tmp_path)
        assert rows_of(reading.traces[0]) == expected(EVENTS), data[:40]


def test_a_second_event_list_is_said_to_be_left_out(tmp_path: Path) -> None:
    data = WHOLE.rstrip()[:-1] + b', "traceEvents": [' + TEXTS[0].encode() + b"]}"
    reading = read_bytes(data, tmp_path)
    assert rows_of(reading.traces[0]) == expected(EVENTS)
    assert problem_about(reading, "further event list") == 1


@pytest.mark.parametrize("data", [b'{"traceEvents": []}', b"[]", b'{"traceEvents": [\n\n]\n}', b'{"traceEvents": ['])
def test_an_empty_event_list_is_said(data: bytes, tmp_path: Path) -> None:
    reading = read_bytes(data, tmp_path)
    assert len(reading.traces[0].events) == 0
    assert any("no complete event" in p.detail for p in reading.problems)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"garbage", b"{}", b"\x1f\x8b", b"\x1f\x8b\x08\0\0", b"\x28\xb5\x2f\xfd", b"{" * 9]
)
def test_what_holds_no_event_list_is_refused_in_one_line(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"run\.pt\.trace\.json: .*traceEvents") as caught:
        read_bytes(data, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_without_end_is_no_crash(opening: bytes, tmp_path: Path) -> None:
    texts = [t.encode() for t in TEXTS]
    bottomless = b'{"ph": "X", "name": "x", "ts": 1, "dur": 1, "args": {"x": ' + opening * 100_000
    data = b'{"traceEvents": [' + b",\n".join((*texts, bottomless))
    assert rows_of(read_bytes(data, tmp_path).traces[0]) == expected(EVENTS)


def test_only_a_trace_without_gpu_work_says_so(tmp_path: Path) -> None:
    host = [e for e in EVENTS if not e.on_device]
    says = [p for p in read_bytes(document(event_texts(host)), tmp_path).problems if "no GPU activity" in p.detail]
    assert len(says) == 1 and says[0].severity == "info"


def test_begin_and_end_events_are_counted(tmp_path: Path) -> None:
    extra = ['{"ph": "B", "name": "x", "ts": 1, "pid": 1, "tid": 1}', '{"ph": "E", "ts": 2, "pid": 1, "tid": 1}']
    reading = read_bytes(document([*TEXTS, *extra]), tmp_path)
    assert rows_of(reading.traces[0]) == expected(EVENTS)
    assert any(p.count == 2 and "begin/end" in p.detail for p in reading.problems)


def test_the_last_of_repeated_keys_wins(tmp_path: Path) -> None:
    texts = [t.replace('"dur": ', '"dur": 1, "dur": ') for t in TEXTS]
    assert rows_of(read_bytes(document(texts), tmp_path).traces[0]) == expected(EVENTS)


# ------------------------------------------------------------------------------------------------------------ samples
@pytest.mark.parametrize(
    ("name", "kept", "damage"),
    [
        ("good", slice(None), {}),
        ("truncated", slice(8), {"cut": 1, "lost": 1}),
        ("malformed", [0, *range(2, 13)], {"lost": 1, "control characters": 1}),
    ],
)
def test_the_samples_read_as_they_always_have(name: str, kept: slice | list[int], damage: dict[str, int]) -> None:
    path = ROOT / "tests/samples/torch_trace" / f"{name}.pt.trace.json"
    reading = FORMAT.read(FileSource(path), ENGINES)
    rows = expected(small_trace(1, 1))
    wanted = rows[kept] if isinstance(kept, slice) else [rows[i] for i in kept if i < len(rows)]
    assert [r[2:] for r in rows_of(reading.traces[0])] == [r[2:] for r in wanted]
    assert reading.traces[0].base == 1_748_000_000_000_000_000
    assert {kind: problem_about(reading, kind) for kind in damage} == damage
    assert len(reading.problems) == len(damage)


# --------------------------------------------------------------------------------------------------------------- laws
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300) | st.binary(max_size=200).map(lambda b: b'{"traceEvents": [' + b))
def test_arbitrary_bytes_raise_nothing_but_bad_input(data: bytes, tmp_path: Path) -> None:
    assert read_twice(data, tmp_path) is not None


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=mutated(document(event_texts(small_trace(1, 1)))) | mutated(gzip.compress(WHOLE)))
def test_mutated_traces_raise_nothing_but_bad_input(data: bytes, tmp_path: Path) -> None:
    assert read_twice(data, tmp_path) is not None


def read_twice(data: bytes, folder: Path) -> str:
    """What reading gives, the same both times."""
    results = []
    for _ in range(2):
        try:
            reading = read_bytes(data, folder)
            results.append(repr((rows_of(reading.traces[0]), reading.problems, reading.facts)))
        except BadInput as error:
            results.append(str(error))
    assert results[0] == results[1]
    return results[0]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    spoiled=st.dictionaries(
        st.integers(0, len(EVENTS) - 1),
        st.sampled_from(['"', "\\", '"x"', "\x02", "\udcff", '"}, {"', "}]"]),
        max_size=6,
    ),
    keep=st.floats(0.3, 1.0),
    start=st.sampled_from([0, EPOCH]),
)
def test_what_decodes_of_a_damaged_trace_is_what_the_whole_one_says(
    spoiled: dict[int, str], keep: float, start: int, tmp_path: Path
) -> None:
    events = small_trace(start=start)
    texts = event_texts(events)
    for i, noise in spoiled.items():
        texts[i] = texts[i].replace('"name": "', '"name": "' + noise.replace("\udcff", "\x7f\u00ff"), 1)
    data = document(texts).replace("\x7f\u00ff".encode(), b"\xff")
    try:
        found = rows_of(read_bytes(data[: int(len(data) * keep)], tmp_path).traces[0])
    except BadInput:
        return
    whole = {(kind, *rest) for kind, _, *rest in expected(events)}
    assert [(kind, *rest) for kind, _, *rest in found if (kind, *rest) not in whole] == []
    if keep == 1.0:
        harmless = ("\x02", "\udcff", "}]")
        lost = [i for i, noise in spoiled.items() if noise not in harmless]
        assert [r[2:] for r in found] == [r[2:] for r in without(events, *lost)]
