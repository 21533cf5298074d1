"""The command ``profiler``: parse, call, print. Errors are caught here, once."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeVar

import click

from profiler import __version__
from profiler.cli.start import EXIT_INTERRUPTED
from profiler.errors import ProfilerError

if TYPE_CHECKING:
    from rich.console import Console

EXIT_INCOMPLETE = 3
# Each is a module of this package, imported when its command is asked for.
COMMANDS: Final = (
    "bench",
    "check",
    "demo",
    "diagnose",
    "doctor",
    "flamegraph",
    "goodput",
    "inspect",
    "recommend",
    "record",
    "schema",
    "selftest",
    "timeline",
    "watch",
    "whatif",
)


def _console(stderr: bool) -> Console:
    from rich.console import Console

    return Console(stderr=stderr)


@dataclass
class State:
    """What the global options ask for, and the two consoles everything is printed to."""

    out: Console = field(default_factory=lambda: _console(stderr=False))
    err: Console = field(default_factory=lambda: _console(stderr=True))
    verbose: bool = False
    quiet: bool = False
    debug: bool = False
    incomplete: bool = False


pass_state = click.make_pass_decorator(State)


def write_document(text: str) -> None:
    """Write a document to standard output as UTF-8, whatever the terminal's encoding is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


F = TypeVar("F", bound=Callable[..., object])


def common_options(command: F) -> F:
    """The global options, which may also stand behind a command's name: ``profiler diagnose A B -v``."""

    def set_state(name: str) -> Callable[[click.Context, click.Parameter, bool], None]:
        def apply(context: click.Context, _: click.Parameter, given: bool) -> None:
            state = context.ensure_object(State)
            if given:
                if name == "no_color":
                    state.out.no_color = state.err.no_color = True
                else:
                    setattr(state, name, True)

        return apply

    for flags, name, text in (
        (("--debug",), "debug", "Show a traceback where something goes wrong."),
        (("--no-color",), "no_color", "No colours (NO_COLOR is honoured too)."),
        (("-q", "--quiet"), "quiet", "Print results only: no progress, no notes."),
        (("-v", "--verbose"), "verbose", "Show the evidence behind every row, and all problems."),
    ):
        option = click.option(*flags, is_flag=True, expose_value=False, callback=set_state(name), help=text)
        command = option(command)
    return command


class _Commands(click.Group):
    """The commands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"profiler.cli.{cmd_name}").command
        if not any("--lang" in parameter.opts for parameter in command.params):
            return command
        from profiler.cli.spoken_help import spoken

        return spoken(command, ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="profiler")
@common_options
@click.pass_context
def cli(context: click.Context) -> None:
    """Why is this LLM serving engine faster than that one, and what do I turn to close the gap?

    \b
    Example:
      profiler demo
      profiler diagnose run-A run-B --html report.html
    """
    # Options before the command's name are parsed before this runs, those behind it after.
    context.ensure_object(State)


def _language(words: Sequence[str]) -> AbstractContextManager[None]:
    """The language that --lang asks for among a command's own words: help is shown before options are parsed."""
    own = words[: words.index("--")] if "--" in words else words
    spelled = " ".join(own).replace("--lang ", "--lang=").split()
    asked = [word.removeprefix("--lang=") for word in spelled if word.startswith("--lang=")]
    if not asked:
        return nullcontext()
    from profiler.reports.language import LANGUAGES, speaking

    return speaking(asked[-1]) if asked[-1] in LANGUAGES else nullcontext()


def _told(error: ProfilerError, words: Sequence[str]) -> str:
    """An error in the language that is asked for."""
    from profiler.reports.language import said

    with _language(words):
        return said(str(error))


def main() -> None:
    """Entry point of the console script; returns by ``sys.exit`` with the status that the contract names."""
    debug = "--debug" in sys.argv[1:]
    # numpy starts a thread a core for linear algebra, which nothing here does on a large scale: a third of its import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        # A terminal or pipe that can't show a sign gets another one rather than a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with _language(sys.argv[1:]):
            status = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except click.Abort:
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except ProfilerError as error:
        if debug:
            raise
        click.echo(f"profiler: {_told(error, sys.argv[1:])}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of a pipe has seen enough (head, less).
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"profiler: {where}{error.strerror or error}. Check the path and its permissions", err=True)
        sys.exit(2)
    except Exception as error:
        # Python's own status for a traceback is 1, which a pipeline would read as a failed gate.
        if debug:
            raise
        told = " ".join(f"{type(error).__name__}: {error}".split())
        click.echo(f"profiler: internal error: {told}. Run again with --debug and report it", err=True)
        sys.exit(2)
    sys.exit(status if isinstance(status, int) else 0)
