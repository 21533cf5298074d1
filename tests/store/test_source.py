"""A file as decompressed bytes: recognised by its content, and given out up to the byte where it breaks off."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from profiler.store.source import FileSource, zstd

# Incompressible enough that every part of the compressed file holds a part of the text.
TEXT = b"".join(zlib.crc32(i.to_bytes(4, "big")).to_bytes(4, "big").hex().encode() + b"\n" for i in range(60_000))


def checked_zstd(data: bytes) -> bytes:
    """With a checksum, so that damage inside a frame is seen."""
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


def opened(data: bytes, folder: Path, name: str = "x") -> tuple[bytes, FileSource]:
    path = folder / name
    path.write_bytes(data)
    source = FileSource(path)
    with source.open() as stream:
        return stream.read(), source


@pytest.mark.parametrize("name", ["x", "x.gz", "x.zst", "x.json"])
@pytest.mark.parametrize(
    "pack",
    [
        bytes,
        gzip.compress,
        zstd.compress,
        lambda t: gzip.compress(t[:99]) + gzip.compress(b"") + gzip.compress(t[99:]),
        lambda t: zstd.compress(t[:99]) + zstd.compress(t[99:]),
        lambda t: gzip.compress(t) + b"\0" * 4096,
    ],
    ids=["plain", "gzip", "zstd", "gzip members", "zstd frames", "padded gzip"],
)
def test_compression_is_undone_whatever_the_suffix_says(pack: object, name: str, tmp_path: Path) -> None:
    text, source = opened(pack(TEXT), tmp_path, name)  # type: ignore[operator]
    assert text == TEXT and source.broken is None
    assert source.head(1000) == TEXT[:1000]
    assert source.size == (tmp_path / name).stat().st_size


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.999])
def test_a_cut_gzip_file_gives_every_byte_before_the_break(share: float, tmp_path: Path) -> None:
    whole = gzip.compress(TEXT)
    cut = whole[: int(len(whole) * share)]
    text, source = opened(cut, tmp_path)
    assert TEXT.startswith(text) and len(text) >= len(zlib.decompressobj(wbits=31).decompress(cut)) - 1
    assert source.broken is not None and "breaks off" in source.broken


@pytest.mark.parametrize("share", [0.2, 0.6, 0.999])
def test_a_cut_zstd_file_gives_what_came_before_and_says_so(share: float, tmp_path: Path) -> None:
    whole = zstd.compress(TEXT)
    text, source = opened(whole[: int(len(whole) * share)], tmp_path)
    assert TEXT.startswith(text) and len(text) > (share - 0.25) * len(TEXT)
    assert source.broken is not None and "breaks off" in source.broken


@pytest.mark.parametrize("size", range(2, 24))
@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_tiny_cut_file_is_no_crash(pack: object, size: int, tmp_path: Path) -> None:
    whole = pack(b"hello world, hello world")  # type: ignore[operator]
    text, source = opened(whole[:size], tmp_path)
    assert b"hello world, hello world".startswith(text) or text == whole[:size]
    if size >= 4:
        assert source.broken is not None


def test_damage_inside_keeps_what_came_before(tmp_path: Path) -> None:
    for pack in (gzip.compress, checked_zstd):
        whole = bytearray(pack(TEXT))
        middle = len(whole) // 2
        whole[middle : middle + 64] = b"\xff" * 64
        text, source = opened(bytes(whole), tmp_path)
        assert source.broken is not None
        assert text[: len(TEXT) // 5] == TEXT[: len(TEXT) // 5]


def test_garbage_after_a_gzip_member_is_said_and_loses_nothing(tmp_path: Path) -> None:
    text, source = opened(gzip.compress(TEXT) + b"garbage", tmp_path)
    assert text == TEXT and source.broken is not None


def test_reading_again_starts_from_the_beginning(tmp_path: Path) -> None:
    _, source = opened(gzip.compress(TEXT), tmp_path)
    with source.open() as stream:
        assert stream.read(10) == TEXT[:10]
    assert source.head(20) == TEXT[:20]


def test_a_highly_compressed_file_is_streamed(tmp_path: Path) -> None:
    zeros = bytes(64 << 20)
    for pack in (lambda b: gzip.compress(b, 9), zstd.compress):
        path = tmp_path / "zeros"
        path.write_bytes(pack(zeros))
        total = 0
        with FileSource(path).open() as stream:
            while piece := stream.read(1 << 20):
                total += len(piece)
        assert total == len(zeros)


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    text, source = opened(b"", tmp_path)
    assert text == b"" and source.broken is None and source.head() == b""
