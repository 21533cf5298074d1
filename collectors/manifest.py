"""What the operator knows of a run: ``run.json``, and a server's or client's command kept as a text file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from profiler.collectors.command_text import engine_of, is_client, split, workload
from profiler.collectors.json_text import count, decode, leading_pairs, mapping, number, parse, string
from profiler.collectors.knob_values import from_command
from profiler.collectors.redaction import redact, redact_command
from profiler.errors import BadInput
from profiler.model.extension import Engine, Format, Source
from profiler.model.fact import Fact
from profiler.model.problem import Problem
from profiler.model.run import Reading

LARGEST: Final = 1 << 24
SECTIONS: Final = ("engine", "model", "hardware", "workload", "times")
# Names of a model's own configuration file and the shorter ones of run.json.
MODEL_NAMES: Final = {
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_key_value_heads": "num_kv_heads",
    "num_attention_heads": "num_heads",
    "head_dim": "head_dim",
    "intermediate_size": "intermediate_size",
    "moe_intermediate_size": "moe_intermediate_size",
    "num_experts": "num_experts",
    "num_local_experts": "num_experts",
    "n_routed_experts": "num_experts",
    "num_experts_per_tok": "experts_per_token",
    "vocab_size": "vocab_size",
    "dtype": "dtype",
    "torch_dtype": "dtype",
}
_State = Callable[[str, object, str], None]  # (fact, value, place in the file): keeps the first statement of a fact
_COMMAND_NAME: Final = re.compile(r"(?:command|cmdline|\bcmd\b|\.cmd)", re.I)
_ENVIRONMENT: Final = re.compile(r"(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=\S*\s*")
_FLAG: Final = re.compile(r"(?:^|\s)--?[A-Za-z][\w.-]*")
_PROGRAM: Final = re.compile(r"[\w./~+-]+")


class Manifest:
    """``run.json``; see ``profiler.model.extension.Format``."""

    name = "manifest"
    version = 4

    def sniff(self, head: bytes, name: str) -> float:
        """By the sections; the file's name settles what is doubtful."""
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
            return 0.0
        named = PurePosixPath(name.replace("\\", "/")).name in ("run.json", "run.json.gz", "run.json.zst")
        text = decode(head)
        answer = parse(text)
        pairs = answer if isinstance(answer, dict) else leading_pairs(text)
        sections = sum(1 for key in SECTIONS if isinstance(pairs.get(key), dict | str))
        if named:
            return 0.97 if sections or not pairs else 0.5
        return 0.9 if sections >= 3 and isinstance(pairs.get("engine"), dict) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Everything that is stated, as facts that are not inferred; settings follow from the engine's command."""
        with source.open() as stream:
            text = decode(stream.read(LARGEST))
        document = parse(text)
        problems: list[Problem] = []
        if not isinstance(document, dict):
            document = leading_pairs(text)
            if not document:
                raise BadInput(source.name, "no JSON object", "Write one object with engine, model, hardware, workload")
            place = f"after key {list(document)[-1]!r}"
            problems.append(Problem(source.name, "error", "the JSON breaks off; what stands before it was read", place))
        found: dict[str, Fact[object]] = {}

        def state(key: str, value: object, place: str) -> None:
            if value is not None and value != "":
                found.setdefault(key, Fact(redact(value, key.rpartition(".")[2]), f"{source.name}: {place}", False))

        _engine(document.get("engine"), engines, state)
        _model(document.get("model"), state)
        for section in ("hardware", "workload"):
            for key, value in mapping(document.get(section)).items():
                if not isinstance(value, dict):
                    state(f"{section}.{key}", value, f"{section}.{key}")
        if "gpu" in mapping(document.get("hardware")):
            # An explicit null says that there is none.
            state("hardware.device", "gpu" if mapping(document.get("hardware"))["gpu"] else "cpu", "hardware.gpu")
        _load(mapping(document.get("workload")), state)
        _times(mapping(document.get("times")), state)
        window = mapping(document.get("log_window"))
        if window:
            state("workload.log_window", [window.get("offset_start"), window.get("offset_end")], "log_window")
        state("simulated", document.get("simulated") is True or None, "simulated")
        problems += _recording(mapping(document.get("recording")), source.name, state)
        if not found:
            detail = f"none of {', '.join(SECTIONS)} is filled in, so nothing is known from this file"
            problems.append(Problem(source.name, "warning", detail))
        return Reading(facts=found, problems=tuple(problems))


class CommandText:
    """A text file that holds one command line; see ``profiler.model.extension.Format``."""

    name = "command_text"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """One line of a program with flags; beside it only comments and ``NAME=value`` lines."""
        if b"\0" in head or len(head) > 32768:
            return 0.0
        line = _command_line(head.decode("utf-8", "replace"))
        if line is None:
            return 0.0
        return 0.85 if _COMMAND_NAME.search(PurePosixPath(name.replace("\\", "/")).name) else 0.5

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """The command, redacted, and the settings that its flags state; the engine is inferred from its words."""
        with source.open() as stream:
            line = _command_line(decode(stream.read(32768)))
        words = [] if line is None else split(line)
        if not words:
            raise BadInput(source.name, "no command line", "Keep one command with its flags on one line", "line 1")
        place = f"{source.name}: command line"
        clean = redact_command(words)
        if is_client(words):
            facts: dict[str, Fact[object]] = {"workload.client_command": Fact(clean, place)}
            return Reading(facts=facts | {f"workload.{key}": Fact(v, place) for key, v in workload(words).items()})
        facts = {"engine.command": Fact(clean, place)}
        engine = engine_of(words, engines)
        if engine is None:
            problem = Problem(source.name, "info", "a command of no known engine: its flags were not interpreted")
            return Reading(facts=facts, problems=(problem,))
        facts["engine.name"] = Fact(engine.name, place)
        return Reading(facts=facts | {key: Fact(v, place) for key, v in from_command(engine, words).items()})


def _engine(section: object, engines: Sequence[Engine], state: _State) -> None:
    if isinstance(section, str):
        state("engine.name", section.lower(), "engine")
        return
    engine = mapping(section)
    name = string(engine.get("name"))
    state("engine.name", None if name is None else name.lower(), "engine.name")
    state("engine.version", engine.get("version"), "engine.version")
    command = engine.get("command")
    words = split(command) if isinstance(command, str) else []
    if isinstance(command, list):
        words = [str(word) for word in command]
    if words:
        state("engine.command", redact_command(words), "engine.command")
    named = next((one for one in engines if name is not None and one.name == name.lower()), None)
    known = named or engine_of(words, engines)
    if known is not None:
        for key, value in from_command(known, words).items():
            state(key, value, "engine.command")
    for key, value in engine.items():
        if key not in ("name", "version", "command", "processes") and not isinstance(value, dict):
            state(f"engine.{key}", value, f"engine.{key}")
    environment = mapping(engine.get("env"))
    if environment:
        state("engine.env", redact(environment), "engine.env")


def _model(section: object, state: _State) -> None:
    if isinstance(section, str):
        state("model.name", section, "model")
        return
    model = mapping(section)
    for key in ("name", "path"):
        state("model.name", model.get(key), f"model.{key}")
    for key, value in model.items():
        if not isinstance(value, dict | list):
            state(f"model.{MODEL_NAMES.get(key, key)}", value, f"model.{key}")
    for key, value in mapping(model.get("config")).items():
        if key in MODEL_NAMES:
            state(f"model.{MODEL_NAMES[key]}", value, f"model.config.{key}")


def _load(section: Mapping[str, object], state: _State) -> None:
    """What the load generator was told, from its arguments, where the section does not say it itself."""
    for key in ("client_command", "args"):
        words = section.get(key)
        if isinstance(words, list):
            for name, value in workload([str(word) for word in words]).items():
                state(f"workload.{name}", value, f"workload.{key}")


def _times(section: Mapping[str, object], state: _State) -> None:
    """The measured window, in seconds since the run began and, where that moment is known, since the epoch."""
    window = section.get("measured_window_s")
    ends = [number(end) for end in window] if isinstance(window, list) else []
    began = number(section.get("t0_epoch"))
    if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
        state("workload.measured_window", [ends[0], ends[1]], "times.measured_window_s")
        if began is not None:
            state("workload.measured_window_epoch", [began + ends[0], began + ends[1]], "times.measured_window_s")
    for key, value in section.items():
        if key != "measured_window_s" and not isinstance(value, dict | list):
            state(f"times.{key}", value, f"times.{key}")


def _recording(section: Mapping[str, object], path: str, state: _State) -> list[Problem]:
    """How a recording ended and what each collector cost; what it could not collect are problems of the run."""
    problems: list[Problem] = []
    ended = string(section.get("state"))
    state("recording.state", ended, "recording.state")
    if ended not in (None, "done"):
        told = "did not come to its end" if ended == "recording" else f"ended as {ended!r}"
        problems.append(Problem(path, "warning", f"the recording {told}: a part may be missing", "recording.state"))
    costs = section.get("costs")
    for cost in map(mapping, costs if isinstance(costs, list) else ()):
        name, cpu, asked = string(cost.get("collector")), number(cost.get("cpu_seconds")), count(cost.get("requests"))
        if name is not None and cpu is not None:
            received, written = (count(cost.get(key)) or 0 for key in ("received", "written"))
            text = f"{cpu:.2f} CPU s, {asked or 0} requests, {received} bytes received, {written} written"
            inside, slower = number(cost.get("server_seconds")), number(cost.get("toll"))
            text += "" if inside is None else f", {inside:.2f} CPU s in the server's own process"
            text += "" if slower is None else f", {slower:.2f} times as many tokens a second before it as during it"
            state(f"recording.cost.{name}", text, "recording.costs")
    trace = mapping(section.get("trace"))
    toll = number(trace.get("toll"))
    if toll is not None:
        text = f"{toll:.2f} times as many tokens a second before the profiler's session as during it"
        state("recording.toll", text, "recording.trace")
    said = section.get("problems")
    for text in said if isinstance(said, list) else ():
        problems.append(Problem(path, "warning", str(text)[:500], "recording.problems"))
    for name, why in mapping(section.get("not_collected")).items():
        problems.append(Problem(path, "info", f"not collected: {name}: {str(why)[:500]}", "recording.not_collected"))
    return problems


def _command_line(text: str) -> str | None:
    """The one command of a text, continued lines joined, or None where the text is something else."""
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = [line.strip() for line in joined.splitlines() if line.strip()]
    commands = [line for line in lines if not line.startswith("#") and not _ENVIRONMENT.fullmatch(line)]
    if len(commands) != 1 or len(_FLAG.findall(commands[0])) < 1 or len(lines) > 60:
        return None
    first = commands[0].split(None, 1)[0]
    return commands[0] if _PROGRAM.fullmatch(first) and not first.startswith("-") else None


FORMATS: Final[tuple[Format, ...]] = (Manifest(), CommandText())
