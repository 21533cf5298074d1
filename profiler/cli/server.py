"""How a command reaches a server: by its address or a process of it, with a key that stands on no command line."""

from __future__ import annotations

import os
from pathlib import Path

import click

from profiler.collectors.availability import devices
from profiler.collectors.discovery import url_of
from profiler.collectors.http_client import Client, tls
from profiler.errors import UsageError


def server_options(command: click.decorators.FC) -> click.decorators.FC:
    """The options by which a command reaches a server."""
    for option in (
        click.option("--ca", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                     help="Certificates to check the server's against (PEM)."),
        click.option("--api-key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
                     help="A file that holds nothing but the server's API key."),
        click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the server's API key."),
        click.option("--pid", type=int, help="A process of the server on this machine, instead of its address."),
        click.option("--url", metavar="URL", help="The server's address, such as http://127.0.0.1:8000."),
    ):  # fmt: skip
        command = option(command)
    return command


def client_of(
    url: str | None, pid: int | None, api_key_env: str | None, api_key_file: Path | None, ca: Path | None
) -> Client:
    """The client that these options describe. Raises UsageError."""
    if (url is None) == (pid is None):
        raise UsageError("give the server's --url, or a --pid of it on this machine")
    key = None
    if api_key_file is not None:
        key = api_key_file.read_text("utf-8").strip()
    elif api_key_env is not None:
        key = os.environ.get(api_key_env)
        if key is None:
            raise UsageError(f"--api-key-env {api_key_env}: there is no such variable")
    address = url if url is not None else url_of(pid or 0)
    return Client(address, key, tls(ca) if address.startswith("https") else None)


def gpu_processes() -> dict[int, list[int]]:
    """Process -> GPUs, as this machine's driver says."""
    opened, _ = devices()
    if opened is None:
        return {}
    found = opened.processes()
    opened.close()
    return found
