"""Forward-pass metrics as they are published: messages of both forms over real sockets, and where they come from."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler import open_run
from profiler.collectors.components import dynamo
from profiler.collectors.discovery import Discovery
from profiler.collectors.engines import sglang
from profiler.collectors.forward_passes import folder_of, needs, publishers
from profiler.collectors.process_tree import Process
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import SampleFailed
from profiler.collectors.scheduler.forward_pass_stream import FILE, ForwardPassStream, line_of
from profiler.model.live import Identity

zmq = pytest.importorskip("zmq")
NUMBER = 16166187463490737304


def passed(counter: int, worker: int = NUMBER, decoding: int = 3) -> dict[str, object]:
    """A forward pass, or a heartbeat where nothing decodes."""
    ran = {"num_prefill_requests": 0, "sum_prefill_tokens": 0, "num_decode_requests": decoding}
    return {
        "version": 1, "worker_id": str(worker), "dp_rank": 0, "counter_id": counter, "wall_time": 0.02 * bool(decoding),
        "scheduled_requests": ran, "queued_requests": {"num_prefill_requests": 2, "num_decode_requests": 0},
    }  # fmt: skip


def raw(stated: object) -> list[bytes]:
    """As an engine publishes it."""
    return [b"", (7).to_bytes(8, "big"), msgspec.msgpack.encode(stated)]


def event(stated: object, at: int = 1796085080845) -> list[bytes]:
    """As Dynamo's event plane does: its event behind a version and a length."""
    payload = msgspec.msgpack.encode(stated)
    told = {"publisher_id": 5, "sequence": 37, "published_at": at, "topic": "forward-pass-metrics", "payload": payload}
    data = msgspec.msgpack.encode(told)
    head = b"\x01" + len(data).to_bytes(4, "big")
    return [b"forward-pass-metrics", (5).to_bytes(8, "big"), (37).to_bytes(8, "big"), head + data]


@contextmanager
def publishing(folder: Path) -> Iterator[tuple[str, object]]:
    """A publisher's address, and the call that sends until a subscriber was there for it."""
    context = zmq.Context()
    socket = context.socket(zmq.XPUB)
    address = f"ipc://{folder}/pub"
    socket.bind(address)
    try:
        yield address, socket
    finally:
        socket.close(linger=0)
        context.term()


def sent(socket: object, messages: Sequence[list[bytes]]) -> None:
    """After the subscription has come."""
    assert socket.poll(10_000), "nobody subscribed"  # type: ignore[attr-defined]
    socket.recv()  # type: ignore[attr-defined]
    for frames in messages:
        socket.send_multipart(frames)  # type: ignore[attr-defined]


def test_what_is_published_becomes_the_steps_of_a_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", 1 << 20)
    other = [
        event(passed(1, worker=9)),
        [b"x"],
        raw({"kv": 1}),
        raw([1, 2]),
        [b"forward-pass-metrics", b"", b"", b"\x01"],
    ]
    with publishing(tmp_path) as (address, socket):
        stream = ForwardPassStream([address], folder, {str(NUMBER): "worker-1", "8": ""}.get)
        messages = [event(passed(at)) for at in range(4)] + other
        messages += [raw(passed(1, worker=8)), event(passed(4, decoding=0))]
        sent(socket, messages)
        deadline = time.monotonic() + 20
        while stream.cost.received < sum(len(frame) for frames in messages for frame in frames):
            with suppress(SampleFailed):
                stream.take(0.0)
            assert time.monotonic() < deadline, stream.cost
            time.sleep(0.01)
        stream.close()
    assert sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*.jsonl")) == [
        FILE,
        f"worker-1/{FILE}",
    ]
    logs = {log.path: log for log in open_run(folder.path).logs}
    steps = logs[f"worker-1/{FILE}"].steps
    assert logs[f"worker-1/{FILE}"].every_step and steps.decode_requests.tolist() == [3] * 4
    assert steps.seconds == pytest.approx([0.02] * 4) and steps.waiting.tolist() == [2] * 4
    assert steps.clock == pytest.approx([1796085080.845] * 4)
    assert len(logs[FILE].steps) == 1


def test_a_publisher_that_says_nothing_is_told(tmp_path: Path) -> None:
    stream = ForwardPassStream([f"ipc://{tmp_path}/nobody"], RunFolder(tmp_path / "run", 1 << 20), lambda number: "")
    with pytest.raises(SampleFailed, match="nothing came from ipc://"):
        stream.take(0.0)
    stream.close()


@settings(deadline=None)
@given(st.lists(st.binary(max_size=80), max_size=5))
def test_no_message_breaks_it(frames: list[bytes]) -> None:
    assert line_of(frames) is None


@contextmanager
def process(**environment: str) -> Iterator[Process]:
    child = subprocess.Popen(["sleep", "60"], env=environment)
    try:
        # It is seen a moment after the program has begun.
        while not Path(f"/proc/{child.pid}/environ").read_bytes():
            time.sleep(0.01)
        yield Process(child.pid, 1, ("python", "-m", "dynamo.frontend"))
    finally:
        child.kill()
        child.wait()


def front_end(*processes: Process, **told: object) -> Discovery:
    return Discovery("http://h:1", None, dynamo.COMPONENT, Identity(), {}, {}, processes, **told)  # type: ignore[arg-type]


@pytest.mark.parametrize("named", [True, False])
def test_publishers_of_dynamo_are_in_its_registrations(tmp_path: Path, named: bool) -> None:
    root = tmp_path if named else tmp_path / "dynamo_store_kv"
    channels = root / "v1" / "event_channels"
    channels.mkdir(parents=True)
    topic = "namespace%2Fdynamo%2Fcomponent%2Fbackend%2Fendpoint%2Fgenerate%2Ftopic%2F"

    def register(name: str, transport: object) -> None:
        (channels / f"{topic}{name}").write_text(json.dumps({"type": "EventChannel", "transport": transport}))

    register("forward%2Dpass%2Dmetrics%2F27", {"kind": "Zmq", "config": {"endpoint": "tcp://127.0.0.1:36467"}})
    register("forward%2Dpass%2Dmetrics%2F28", {"kind": "Nats", "config": {"subject": "x"}})
    register("forward%2Dpass%2Dmetrics%2F29", {"kind": "Zmq", "config": {"endpoint": "file:///etc/passwd"}})
    register("kv%2Devents%2F30", {"kind": "Zmq", "config": {"endpoint": "tcp://127.0.0.1:1"}})
    (channels / f"{topic}forward%2Dpass%2Dmetrics%2F31").write_text("{")
    with process(**({"DYN_FILE_KV": str(tmp_path)} if named else {"TMPDIR": str(tmp_path)})) as one:
        assert publishers(front_end(one)) == ("tcp://127.0.0.1:36467",)
    with process(DYN_FILE_KV=str(tmp_path / "none")) as one:
        found = front_end(one)
        assert publishers(found) == () and "DYN_EVENT_PLANE=zmq" in str(needs(found))


def test_a_message_goes_to_the_worker_that_has_its_number() -> None:
    mark = f'worker_id="{NUMBER:x}"'
    identity = Identity(unnamed=("a worker",), marks=('worker_id="8"',))
    found = Discovery(
        "http://h:1",
        None,
        dynamo.COMPONENT,
        identity,
        {},
        {},
        marked={mark: "http://h:2", 'worker_id="7"': "http://h:3"},
    )
    place = folder_of(found, "", {"http://h:2": "worker-0"})
    # One that is sampled, one that is not, one that has no address, one of another front end, and no number.
    assert [place(text) for text in (str(NUMBER), "7", "8", "9", "x")] == ["worker-0", "", "", None, None]
    engine = Discovery("http://h:1", sglang.ENGINE, None, Identity(), {}, {})
    assert folder_of(engine, "worker-3", {})("") == "worker-3"


def test_sglang_publishes_for_each_rank_where_it_says() -> None:
    def at(**settings: object) -> tuple[str, ...]:
        return publishers(Discovery("http://h:1", sglang.ENGINE, None, Identity(), settings, {}))

    name = "ipc:///tmp/passes"
    assert at(enable_forward_pass_metrics=True, forward_pass_metrics_ipc_name=name, dp_size=2) == (
        f"{name}.0",
        f"{name}.1",
    )
    assert at(enable_forward_pass_metrics=True, forward_pass_metrics_ipc_name=None) == ()
    assert at(enable_forward_pass_metrics=False, forward_pass_metrics_ipc_name=name) == ()
