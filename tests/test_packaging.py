"""What is shipped: the wheel holds the whole product under one name, it installs and runs elsewhere, and it is small.

Rules of the source tree that no other tool holds stand here too.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Folder in the tree -> where the wheel puts it.
FOLDERS = {
    "profiler": "profiler",
    "analyzers": "profiler/analyzers",
    "collectors": "profiler/collectors",
    "reports": "profiler/reports",
    "examples": "profiler/examples",
}
LEFT_OUT = {"__pycache__", ".profiler", ".git", ".venv", "build", "dist", "demo"}
MOST_LINES = 500
MOST_BYTES = 350_000_000
ENGINES = re.compile(r"vllm|sglang", re.I)
# Comments and docstrings that say where a number was measured or which file taught something.
PROSE_NAMES_AN_ENGINE = {
    "analyzers/gap/metrics_split.py": "the null pair that a constant was taken from",
    "analyzers/gap/spread.py": "the null pairs that the spread between starts was taken from",
    "profiler/model/steps.py": "which logs print every step and which sample",
    "profiler/model/trace.py": "which traces leave a device's name empty",
}
OFFLINE = re.compile(
    r"NewConnectionError|ConnectionError|Connection (?:broken|refused)|Temporary failure|Name or service not known"
    r"|ProxyError|ReadTimeout|Network is unreachable"
)


def sources() -> set[str]:
    """Every file of the tree, as git knows it (also new ones), or by walking where there is no repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    if (ROOT / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        if listed.returncode == 0:
            names = listed.stdout.decode().split("\0")
            return {name for name in names if name and (ROOT / name).is_file() and not (ROOT / name).is_symlink()}
    found = set()
    for path in ROOT.rglob("*"):
        inside = path.relative_to(ROOT)
        if path.is_file() and not path.is_symlink() and not LEFT_OUT & set(inside.parts):
            found.add(inside.as_posix())
    return {n for n in found if not re.search(r"(?:^|/)\.[^/]+(?:cache|hypothesis)|\.egg-info/|\.(?:so|pyc)$", n)}


def shipped() -> dict[str, str]:
    """Path in the wheel -> path in the tree, for every file of the five folders."""
    found = {}
    for name in sources():
        folder, _, rest = name.partition("/")
        if folder in FOLDERS and rest:
            found[f"{FOLDERS[folder]}/{rest}"] = name
    return found


def extensions() -> dict[str, str]:
    """Path in the wheel, without the suffix, of each compiled extension -> its source in the tree."""
    listed = pyproject()["tool"]["setuptools"].get("ext-modules", [])  # type: ignore[index]
    return {one["name"].replace(".", "/"): source for one in listed for source in one["sources"]}


def headers() -> set[str]:
    """What the extensions' sources include, in the tree: part of the sdist, and of no wheel."""
    listed = pyproject()["tool"]["setuptools"].get("ext-modules", [])  # type: ignore[index]
    return {header for one in listed for header in one.get("depends", [])}


def pyproject() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def run(*command: str, cwd: Path, timeout: float = 600) -> str:
    """Standard output; skips where the package index can't be reached, fails with everything said otherwise."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)
    said = done.stdout + done.stderr
    if done.returncode != 0 and OFFLINE.search(said):
        pytest.skip(f"the package index can't be reached: {said.strip().splitlines()[-1]}")
    assert done.returncode == 0, f"{' '.join(command)}\n{said}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from the sdist, which is built from a copy: a stale build folder can't hide what is missing."""
    copy, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in sources():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    run(sys.executable, "-m", "build", "--outdir", str(out), cwd=copy)
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert set(extensions().values()) | headers() <= packed
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new environment with nothing but the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    run(sys.executable, "-m", "venv", str(folder), cwd=folder.parent)
    run(str(folder / "bin/python"), "-m", "pip", "install", "--quiet", str(wheel), cwd=folder.parent)
    yield folder
    shutil.rmtree(folder)


def test_the_wheel_holds_exactly_the_five_folders(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    info = {name for name in names if name.partition("/")[0].endswith(".dist-info")}
    assert {name.partition("/")[0] for name in names - info} == {"profiler"}
    assert any(name.endswith("/licenses/LICENSE") for name in info)
    # An extension is shipped compiled; where there is no compiler it is left out.
    built = {name for name in names if name.endswith(".so")}
    assert {name.partition(".")[0] for name in built} <= set(extensions())
    sources_of_extensions = set(extensions().values()) | headers()
    assert names - info - built == {path for path, name in shipped().items() if name not in sources_of_extensions}


def test_pyproject_lists_the_packages_of_the_tree() -> None:
    packages = {str(Path(path).parent).replace("/", ".") for path in shipped() if path.endswith(".py")}
    listed = pyproject()["tool"]["setuptools"]["packages"]  # type: ignore[index]
    assert sorted(listed) == sorted(packages)
    without = [p for p in packages if f"{p.replace('.', '/')}/__init__.py" not in shipped()]
    assert without == []


def test_the_installed_command_runs_away_from_the_tree(installed: Path, tmp_path: Path) -> None:
    command = str(installed / "bin/profiler")
    version = pyproject()["project"]["version"]  # type: ignore[index]
    assert run(command, "--version", cwd=tmp_path).split()[-1] == version
    said = run(command, "--no-color", "demo", "--out", "reports", cwd=tmp_path)
    for pair in ("recorded-vllm-cpu", "simulated-gpu"):
        assert (tmp_path / "reports" / f"{pair}.html").stat().st_size > 10_000
        assert f"reports/{pair}.html" in said


def test_the_dependencies_are_small_and_no_frameworks(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unpacked and with byte code; pip's own and ours left out."""
    (packages,) = (installed / "lib").glob("python3*/site-packages")
    apart = (
        "pip",
        "setuptools",
        "pkg_resources",
        "_distutils_hack",
        "distutils-precedence",
        "profiler",
        "serving_prof",
    )
    sizes: dict[str, int] = {}
    for file in packages.rglob("*"):
        top = file.relative_to(packages).parts[0]
        if file.is_file() and not file.is_symlink() and not top.startswith(apart):
            sizes[top] = sizes.get(top, 0) + file.stat().st_size
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:4]
    named = ", ".join(f"{top} {size / 1e6:.0f} MB" for top, size in largest)
    with capsys.disabled():
        print(f"\ndependencies: {sum(sizes.values()) / 1e6:.0f} MB; {named}")  # noqa: T201
    assert sum(sizes.values()) < MOST_BYTES
    assert {"torch", "pandas", "pyarrow"} & set(sizes) == set()


def test_evidence_flows_one_way() -> None:
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    said = run(sys.executable, "-c", program, cwd=ROOT)
    assert "0 broken" in said


def test_no_file_is_long() -> None:
    lengths = {n: len((ROOT / n).read_text("utf-8").splitlines()) for n in sources() if n.endswith(".py")}
    assert lengths
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_code_outside_the_collectors_names_no_engine() -> None:
    found = {}
    for name in sorted(sources()):
        if name.startswith(("analyzers/", "reports/", "profiler/")) and "plotly" not in name:
            text = (ROOT / name).read_text("utf-8")
            hits = _named_in_code(text) if name.endswith(".py") else []
            # Tables of kernel and operator names are data: the names are the engines' own.
            if not name.endswith((".py", ".tsv")):
                hits = ENGINES.findall(text)
            if hits:
                found[name] = hits
    assert found == {}


def test_prose_names_an_engine_only_where_it_says_so_here() -> None:
    python = [n for n in sources() if n.startswith(("analyzers/", "reports/", "profiler/")) and n.endswith(".py")]
    assert sorted(n for n in python if ENGINES.search((ROOT / n).read_text("utf-8"))) == sorted(PROSE_NAMES_AN_ENGINE)


def _named_in_code(text: str) -> list[str]:
    """Names and strings that hold an engine's name; docstrings and comments are prose."""
    tree = ast.parse(text)
    prose = set()
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                prose.add(id(statement.value))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            words = [node.value]
        else:
            fields = ("id", "attr", "arg", "name", "module")
            words = [w for w in (getattr(node, f, None) for f in fields) if isinstance(w, str)]
        found += [word for word in words if ENGINES.search(word)]
    return found
