"""What is fuzzed: every format that is read, by its name, and the decompression under all of them."""

from __future__ import annotations

import gzip
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from profiler import registry
from profiler.collectors import recognised
from profiler.errors import BadInput
from profiler.model.extension import Format
from profiler.store.source import FileSource
from tests.strategies import document, event_texts, small_trace

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
MOST = 20_000
Check = Callable[[bytes, Path], None]


def read_twice(reader: Format, data: bytes, path: Path) -> None:
    """Nothing but our error, and twice the same."""
    path.write_bytes(data)
    told = []
    for _ in range(2):
        source = FileSource(path, path.name)
        score = reader.sniff(source.head(), source.name)
        assert 0.0 <= score <= 1.0
        try:
            told.append(repr(registry.redacted(reader.read(source, registry.engines()))))
        except BadInput as error:
            told.append(f"{error}".replace("\n", "NOT ONE LINE"))
    assert told[0] == told[1] and "NOT ONE LINE" not in told[0]


def unpack(data: bytes, path: Path) -> None:
    """A stream ends, whatever is in it, and says why where that is too early."""
    path.write_bytes(data)
    source = FileSource(path)
    with source.open() as stream:
        while stream.read(1 << 16):
            pass


READERS = {one.name: one for one in registry.formats() if one not in recognised.FORMATS}
TARGETS: dict[str, Check] = {name: partial(read_twice, reader) for name, reader in READERS.items()}
TARGETS["decompression"] = unpack


def seeds(name: str) -> Iterator[bytes]:
    """Small inputs that the target reads: the samples that its format wins, or a made one."""
    if name == "decompression":
        yield gzip.compress(b"hello " * 99) + gzip.compress(b"world")
        return
    if name == "torch-profiler trace":
        yield document(event_texts(small_trace(1, 1)))
    if name in ("nsys_sqlite", "rocpd"):
        yield _database(name)
    reader = READERS[name]
    for path in sorted(SAMPLES.rglob("*")):
        if path.is_file() and path.stat().st_size <= MOST:
            data = path.read_bytes()
            best = max(READERS.values(), key=lambda one: one.sniff(data[:65536], path.name))
            if best is reader and best.sniff(data[:65536], path.name) > 0:
                yield data


def _database(name: str) -> bytes:
    """A small database with the table that the format looks for."""
    columns = 'start INTEGER, "end" INTEGER, deviceId INTEGER, correlationId INTEGER, name TEXT, pid INTEGER'
    table = "CUPTI_ACTIVITY_KIND_KERNEL" if name == "nsys_sqlite" else "kernels"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("PRAGMA page_size = 512")
            connection.execute(f"CREATE TABLE rocpd_t ({columns})")
            connection.execute("INSERT INTO rocpd_t VALUES (1, 9, 0, 5, 'gemm', 7)")
            kind = "TABLE" if name == "nsys_sqlite" else "VIEW"
            connection.execute(f"CREATE {kind} {table} AS SELECT * FROM rocpd_t")
        return path.read_bytes()
