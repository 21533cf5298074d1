"""Answers as bytes: events however they are cut, streams that servers really sent, and whatever else may come."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.collectors.client.answer import Answer, Places, Reader
from profiler.collectors.client.connection import Connection, Exchange, Failure, outcome

PLACES = Places(("choices.0.text",), "usage.prompt_tokens", "usage.completion_tokens", part="choices.0",
                finish="choices.0.finish_reason")  # fmt: skip
STREAM = (
    b": hello\r\n\r\n"
    b'data: {"choices":[{"text":"\xc3\xa4"}]}\n\n'
    b'data: {"choices":[{"text":""}]}\r\n\r\n'
    b'event: token\ndata: {"choices":[{"text":"b","finish_reason":"length"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize("size", [1, 2, 7, 50, 1000])
def test_events_are_the_same_however_the_bytes_arrive(size: int) -> None:
    answer = Answer(Reader(PLACES))
    for number, at in enumerate(range(0, len(STREAM), size)):
        answer.feed(STREAM[at : at + size], number)
    answer.end(10**6)
    assert (len(answer.chunks), answer.counted, answer.input, answer.finish) == (2, 2, 3, "length")
    assert answer.chunks == sorted(answer.chunks) and answer.strange == 0 and answer.error is None


@pytest.mark.parametrize(
    "data",
    [b"data: [1]\n\n", b"data: {\n\n", b"data: " + b"[" * 3000 + b"\n\n", b'data: {"choices": 3}\n\n', b"\xff\n\n"],
)
def test_events_that_are_none(data: bytes) -> None:
    answer = Answer(Reader(PLACES))
    answer.feed(data, 1)
    assert answer.chunks == [] and answer.strange <= 1


class Wire:
    """What a connection writes to, where there is no socket."""

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None:
        assert data

    def abort(self) -> None:
        self.closed = True


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(STREAM)
ANSWERS = (
    HEAD + STREAM,
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + STREAM,
    b"HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\nno",
    b"HTTP/1.0 200 OK\r\n\r\n" + STREAM,
)


@settings(max_examples=300, deadline=None)
@given(
    answer=st.sampled_from(ANSWERS),
    at=st.integers(0, 400),
    noise=st.binary(max_size=8),
    size=st.integers(1, 80),
)
def test_whatever_a_server_sends_ends_in_one_outcome(answer: bytes, at: int, noise: bytes, size: int) -> None:
    at %= len(answer)
    data = answer[:at] + noise + answer[at + len(noise) :]
    loop = asyncio.new_event_loop()
    try:
        exchange = Exchange(Answer(Reader(PLACES)), loop.create_future())
        connection = Connection()
        connection.transport = Wire()  # type: ignore[assignment]
        connection.start(b"POST", exchange)
        for begin in range(0, len(data), size):
            connection.data_received(data[begin : begin + size])
        connection.connection_lost(None)
        assert exchange.done.done() and exchange.end is not None
        error = exchange.done.exception()
        failure = outcome(exchange) if error is None else error
        assert failure is None or (isinstance(failure, Failure) and failure.kind and failure.detail)
        if not noise:
            assert (failure is None) == (answer not in (ANSWERS[1], ANSWERS[3]))
    finally:
        loop.close()


def test_the_corpus_of_recorded_streams(corpus: Path) -> None:
    """What servers really sent: comments before the first token, a final event that also holds the usage."""
    found = {}
    for path in sorted(corpus.rglob("*.sse")):
        chat = "chat" in path.name
        output = "choices.0.delta.content" if chat else "choices.0.text"
        answer = Answer(Reader(replace_places(output)))
        answer.feed(path.read_bytes(), 1)
        answer.end(2)
        found[path.parent.name] = (len(answer.chunks), answer.counted, answer.strange)
    assert found.pop("transformers-serve-5.19.0") == (6, 6, 0)
    assert all(chunks > 0 and strange == 0 for chunks, _, strange in found.values()) and found


def replace_places(output: str) -> Places:
    return Places((output,), PLACES.input_tokens, PLACES.output_tokens, part=PLACES.part, finish=PLACES.finish)
