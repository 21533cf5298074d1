"""The documentation is held to the product: commands, options, causes, formats, files and links that it names exist."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from profiler import __version__, registry
from profiler.analyzers.causes import CAUSES as KINDS
from profiler.cli.main import COMMANDS, cli
from profiler.collectors.recognised import Recognised
from profiler.model.diagnosis import CAUSES

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"], key=lambda p: p.as_posix()
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")


def text_of(path: Path) -> str:
    return path.read_text("utf-8")


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def outside_code(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def command_lines(text: str) -> list[str]:
    """Every ``profiler …`` of a code block or between backticks that names more than the program."""
    found = [line.strip() for line in text.splitlines() if line.startswith("    ")] + CODE.findall(text)
    found = [re.sub(r"^(?:time )?(?:\.venv/bin/)?", "", line) for line in found]
    return [line for line in found if line.startswith("profiler ")]


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_command_is_documented() -> None:
    everything = "\n".join(text_of(path) for path in DOCUMENTS)
    missing = [name for name in COMMANDS if not re.search(rf"profiler (?:-\S+ )*{name}\b", everything)]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_documented_commands_and_options_exist(document: Path) -> None:
    lines = command_lines(text_of(document))
    # What follows a double dash is a command of its own.
    for line in (part for whole in lines for part in whole.split(" | ")[0].split(" -- ") if "profiler" in part):
        words = shlex.split(line, comments=True)[1:]
        options = [word for word in words if re.match(r"--?[a-z]", word)]
        names = [word for word in words if not word.startswith("-")]
        command: click.Command = cli
        if names and not names[0].startswith("…"):
            assert names[0] in COMMANDS, line
            command = cli.get_command(click.Context(cli), names[0]) or cli
        known = {o for c in (cli, command) for p in c.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        assert [option for option in options if option not in known] == [], line


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_relative_links_resolve(document: Path) -> None:
    for target in LINK.findall(outside_code(text_of(document))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        resolved = document if not path else (document.parent / path).resolve()
        assert resolved.exists(), target
        assert resolved.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors(text_of(resolved)), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_files_that_are_named_exist(document: Path) -> None:
    folders = r"(?:analyzers|collectors|reports|profiler|examples|tests|docs)/"
    for code in CODE.findall(text_of(document)):
        if re.fullmatch(folders + r"[\w./-]+", code):
            assert (ROOT / code).exists(), code


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_make_targets_that_are_named_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.M))
    text = text_of(document)
    named = set(re.findall(r"^    make (\w+)", text, re.M)) | set(re.findall(r"`make (\w+)`", text))
    assert named <= targets


def test_every_cause_has_a_page_and_every_page_a_cause() -> None:
    pages = {path.stem: text_of(path) for path in (ROOT / "docs" / "causes").glob("*.md")}
    assert set(pages) == set(CAUSES) == {kind.name for kind in KINDS}
    for name, page in pages.items():
        assert page.startswith(f"# {name}\n")
        for heading in ("**Evidence.**", "**How it is sized.**", "**When it is wrong.**"):
            assert heading in page, f"{name}: {heading}"
    readme = text_of(ROOT / "README.md")
    assert [name for name in CAUSES if f"docs/causes/{name}.md" not in readme] == []


def test_knobs_on_a_causes_page_are_those_that_the_engines_know() -> None:
    known = {flag for engine in registry.engines() for knob in engine.knobs for flag in knob.flags}
    titles = {engine.title for engine in registry.engines()}
    for path in (ROOT / "docs" / "causes").glob("*.md"):
        table = [line for line in text_of(path).splitlines() if line.startswith("| ")]
        if not table:
            continue
        assert {cell.strip() for cell in table[0].strip("|").split("|")[1:]} <= titles
        flags = {flag for line in table[1:] for flag in re.findall(r"`(--[\w-]+)", line)}
        assert flags <= known, f"{path.name}: {sorted(flags - known)}"


def test_every_format_is_named_as_read_or_as_only_recognised() -> None:
    read, only_recognised = text_of(ROOT / "docs" / "formats.md").split("\n## Recognised, not read\n")
    readers = {one.name for one in registry.formats() if not isinstance(one, Recognised)}
    others = {one.name for one in registry.formats()} - readers
    assert sorted(name for name in readers if f"`{name}`" not in read) == []
    assert sorted(name for name in others if f"`{name}`" not in only_recognised) == []
    assert sorted(name for name in readers if f"`{name}`" in only_recognised) == []


def test_the_changelog_knows_this_version() -> None:
    assert f"## [{__version__}]" in text_of(ROOT / "CHANGELOG.md")


def test_the_ci_script_is_a_script() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    lines = text_of(script).rstrip().splitlines()
    assert "set -euo pipefail" in lines
    assert lines[-1] == "make test"
