"""The figures of a trace's devices: graphs, roofline, collectives and the critical path, each with what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from profiler.analyzers.communication_figures import aligned, communication_figures
from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.device_view import CPU, DeviceView
from profiler.analyzers.figure_rows import FigureRows
from profiler.analyzers.graphs import MODES, misses, padding
from profiler.analyzers.joined_path import TRANSFER, JoinedPath
from profiler.analyzers.kept import kept_joined
from profiler.analyzers.micro_batches import micro_batch_figures
from profiler.analyzers.roofline import AT_LIMIT, Device, Roof, device_of, roofs, shape_of
from profiler.analyzers.speculation import speculation_figures
from profiler.model.fact import Fact
from profiler.model.inspection import Figure
from profiler.model.run import Run
from profiler.model.trace import Trace

_LONGEST: Final = 5
_MODE_NAMES: Final = {"full": "replayed in full", "pieces": "replayed in pieces", "eager": "run eagerly"}


def device_figures(
    run: Run, accounts: Sequence[DeviceAccount], views: Callable[[Trace], Sequence[DeviceView]]
) -> tuple[Figure, ...]:
    """Every figure that the traces of a run carry; ``views`` gives a trace's."""
    found: list[Figure] = []
    for account in accounts:
        found += _graphs(run.facts, account, account.source)
        found += _roofline(run, account, account.source)
        found += _path(account, account.source)
        if account.speculation is not None:
            found += speculation_figures(account.speculation, account.source)
        if account.micro_batches is not None:
            found += micro_batch_figures(account.micro_batches, account.source)
    across = aligned(run, accounts)
    path = kept_joined(run, across, views)
    if path is not None:
        found += _joined(run, path)
    return (*found, *communication_figures(run, accounts, across))


def _graphs(facts: Mapping[str, Fact[object]], account: DeviceAccount, source: str) -> list[Figure]:
    use = account.graphs
    if use is None or not use.kernels:
        return []
    rows = FigureRows("CUDA Graph", source)
    rows.add(
        "kernels replayed",
        use.kernels_replayed / use.kernels,
        "fraction",
        f"{use.kernels_replayed:,} of {use.kernels:,}",
    )
    if use.kernel_seconds:
        rows.add("kernel time replayed", use.replayed_seconds / use.kernel_seconds, "fraction")
    for mode in MODES:
        share = use.share(mode)
        if share is not None:
            tokens = use.share(mode, use.tokens)
            detail = "" if tokens is None else f"{tokens:.1%} of the tokens"
            rows.add(f"steps {_MODE_NAMES[mode]}", share, "fraction", detail)
    if use.pieces is not None:
        rows.add("replays a step in pieces", use.pieces, "count")
    if use.launch_seconds is not None:
        rows.add("a replay's launch call", use.launch_seconds, "s", f"{use.replays:,} replays")
        rows.add("device idle until a late replay", use.waited_seconds, "s", "0: every replay was launched in time")
    if use.replays:
        captured = _sizes(facts)
        pad = padding(use, captured)
        if pad is not None:
            rows.add("rows that pad a replayed batch", pad.tokens / max(pad.tokens + pad.real_tokens, 1), "fraction",
                     f"{pad.tokens:,} rows, at most {pad.seconds:.3g} s of kernel time")  # fmt: skip
        elif use.share("full"):
            rows.add(
                "rows that pad a replayed batch", None, "fraction", "needs the captured sizes of the run's settings"
            )
    switched = facts.get("setting.cuda_graph")
    on = None if switched is None else bool(switched.value)
    largest = _whole(facts, "setting.cuda_graph_max_batch")
    total = len(use.mode)
    for reason, steps in misses(use, _sizes(facts), largest, on).reasons.items():
        rows.add("steps run eagerly", steps / total, "fraction", f"{steps:,} of {total:,}: {reason}")
    return rows.rows


def _sizes(facts: Mapping[str, Fact[object]]) -> tuple[int, ...]:
    fact = facts.get("setting.cuda_graph_batches")
    if fact is None or not isinstance(fact.value, list | tuple):
        return ()
    return tuple(size for size in fact.value if isinstance(size, int) and not isinstance(size, bool))


def _roofline(run: Run, account: DeviceAccount, source: str) -> list[Figure]:
    costs = account.steps
    if account.device == CPU or not account.roles or costs is None:
        return []
    rows = FigureRows("roofline", source)
    shape, device = shape_of(run.facts), _device(run, account)
    missing = [
        text
        for text, lacking in (
            ("the model's shape (model in run.json: hidden_size, num_layers, dtype, …)", shape is None),
            ("a device whose peaks are known", device is None),
        )
        if lacking
    ]
    if shape is None or device is None:
        rows.add("share of the roofline", None, "fraction", f"needs {' and '.join(missing)}")
        return rows.rows
    for roof in roofs_of(run, account):
        above = f"{1e3 * (roof.seconds - roof.floor):.3g} ms above the least"
        limit = f"at its limit ({AT_LIMIT:.0%} and more)" if roof.at_limit else above
        rows.add(f"{roof.role}: share of the roofline", roof.share, "fraction",
                 f"{roof.bound} bound on {device.name}; {limit}")  # fmt: skip
    if account.layers is not None and shape.layers != account.layers:
        rows.add("layers found", account.layers, "count", f"the model has {shape.layers}")
    return rows.rows


def roofs_of(run: Run, account: DeviceAccount) -> tuple[Roof, ...]:
    """Each role of a device's steps against its roofline; none where the shape of the model, the peaks of the device or
    the steps are not known."""
    shape, device, costs = shape_of(run.facts), _device(run, account), account.steps
    if shape is None or device is None or costs is None or account.device == CPU:
        return ()
    steps = [
        (label, {role: float(values[i]) for role, values in costs.roles.items()})
        for i, label in enumerate(costs.spans.labels)
    ]
    return roofs(device, shape, steps, _ranks(run))


def _ranks(run: Run) -> int:
    return _whole(run.facts, "setting.tensor_parallel") or 1


def _device(run: Run, account: DeviceAccount) -> Device | None:
    stated = run.fact("hardware.gpu")
    return device_of(account.name) or device_of(stated if isinstance(stated, str) else None)


def _path(account: DeviceAccount, source: str) -> list[Figure]:
    path = account.path
    if path is None or not path.total:
        return []
    rows = FigureRows("critical path", source)
    rows.add(
        "on the host",
        path.host_share,
        "fraction",
        f"of {path.total:.3g} s; {path.crossings:,} times the device waited for it",
    )
    for name, seconds in list(path.seconds.items())[:_LONGEST]:
        rows.add(name, seconds, "s", f"{seconds / path.total:.1%} of the path")
    return rows.rows


def _joined(run: Run, path: JoinedPath) -> list[Figure]:
    lanes: dict[str, float] = {}
    for (lane, _), seconds in path.seconds.items():
        lanes[lane] = lanes.get(lane, 0.0) + seconds
    rows = FigureRows("critical path", "all traces joined")
    hops = f"{path.ranks:,} times on to a slower rank, {path.processes:,} times to another process"
    world, seen = max((t.world_size or 0 for t in run.traces), default=0), sum(t.rank is not None for t in run.traces)
    if world > seen:
        hops += f"; waits for the {world - seen} of {world} ranks without a trace are on it as {TRANSFER}"
    rows.add("on the hosts", path.host_share, "fraction", f"of {path.total:.3g} s; {hops}")
    for lane, seconds in sorted(lanes.items(), key=lambda item: -item[1]):
        if lane:
            rows.add(f"in {lane}", seconds, "s", f"{seconds / path.total:.1%} of the path")
    for (lane, part), seconds in list(path.seconds.items())[:_LONGEST]:
        rows.add(part, seconds, "s", f"{seconds / path.total:.1%} of the path; {lane or 'no trace shows it'}")
    return rows.rows


def _whole(facts: Mapping[str, Fact[object]], key: str) -> int | None:
    fact = facts.get(key)
    if fact is None or not isinstance(fact.value, int) or isinstance(fact.value, bool):
        return None
    return fact.value
