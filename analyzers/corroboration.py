"""What the rest of a run says of its traces: unprofiled step times and the device's own counters.

A trace can be whole in itself and still not show the engine at work: a profiler that slows the host makes steps that
never happen without it, and one that drops kernels shows a device that idles while its counters say that it is busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.device_view import CPU
from profiler.analyzers.gap.measured import Measured, measure
from profiler.analyzers.gap.model import models_of
from profiler.analyzers.trust import KERNEL_TIME, TrustCheck
from profiler.model.requests import Floats
from profiler.model.run import Run
from profiler.model.trace import Kind, Trace

# The profiler's toll above which the split of host time is only indicative.
HIGH_TOLL: Final = 2.0
# A trace that shows less than this share of what the steps take, or of what the counters show, has lost work.
LEAST_SHOWN: Final = 0.7
# The driver averages utilisation over up to this long before the sample; two such samples have to lie in the trace.
_SAMPLE_SECONDS: Final = 1.0
_FEWEST_SAMPLES: Final = 2


def toll_of(run: Run, accounts: Sequence[DeviceAccount]) -> TrustCheck | None:
    """Profiled over unprofiled time of the same steps; None where the run has no benchmark or no annotated trace.
    ``accounts`` are those of all its traces."""
    if not run.benches or not accounts:
        return None
    measured = measure(run, run.benches[-1], accounts)
    traced = measured.traced
    toll = _toll(measured)
    if traced is None or toll is None:
        return None
    name = "profiled steps take as long as unprofiled ones"
    text = f"traced steps take {toll:.2f} times the unprofiled ones of the same batches"
    if toll < LEAST_SHOWN and traced.device != CPU:
        return TrustCheck(name, False, f"{text}: the trace does not show all of a step", KERNEL_TIME)
    return TrustCheck(name, toll <= HIGH_TOLL, text, "split of host time inside a step")


def _toll(measured: Measured) -> float | None:
    models = models_of(measured, measured, split=True)
    return None if models is None or measured.steps is None else models[0].toll(measured.steps.load)


def busy_of(run: Run, trace: Trace, account: DeviceAccount) -> TrustCheck | None:
    """A device's busy share in the trace against its utilisation in the samples of the same seconds.

    None where the run has no such samples. Utilisation is the share of time in which any kernel was resident, so it is
    what the trace's busy share should be; it tells nothing about how well the kernels ran.
    """
    utilisation = [c for c in run.counters if np.isfinite(c.utilisation).any()]
    if not utilisation or account.device == CPU:
        return None
    name = f"{account.device} is as busy as its counters say"
    gpu = int(account.device.removeprefix("gpu "))
    sampled = sorted({int(g) for c in utilisation for g in np.unique(c.gpu)})
    if len(sampled) > 1 and sampled != devices_of(run):
        detail = f"{len(sampled)} GPUs were sampled: which of them the trace shows is not known"
        return TrustCheck(name, None, detail, KERNEL_TIME)
    device = trace.events.of(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
    device = device.select(device.device == gpu)
    start, end = ((trace.base + int(t)) / 1e9 for t in (device.start.min(), device.end.max()))
    rows: list[Floats] = []
    for counters in utilisation:
        inside = (counters.clock >= start + _SAMPLE_SECONDS) & (counters.clock <= end)
        rows.append(counters.utilisation[inside & ((counters.gpu == gpu) | (len(sampled) == 1))])
    found = np.concatenate(rows)
    found = found[np.isfinite(found)]
    if len(found) < _FEWEST_SAMPLES:
        detail = f"{len(found)} samples of utilisation fall into the trace's {end - start:.2f} s: nothing to compare"
        return TrustCheck(name, None, detail, KERNEL_TIME)
    busy, used = account.busy_ns / account.window_ns, float(found.mean())
    text = f"busy {busy:.0%} of the trace; {len(found)} samples of the same seconds say {used:.0%}"
    return TrustCheck(name, busy >= LEAST_SHOWN * used, text, KERNEL_TIME)


def devices_of(run: Run) -> list[int]:
    """The devices that the run's traces show, in order."""
    found: set[int] = set()
    for trace in run.traces:
        found |= {int(d) for d in np.unique(trace.events.of(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET).device)}
    return sorted(found)


def belongs_of(run: Run, account: DeviceAccount) -> TrustCheck | None:
    """Whether a trace is of the engine that the run's settings and model tell of: the layers that its steps show,
    graphs that the settings switch off, batches beyond their limit. None where nothing can be compared."""
    if account.device == CPU or account.steps is None:
        return None
    found = [
        told for told in (_layers(run, account), _graphs(run, account), _batches(run, account)) if told is not None
    ]
    if not found:
        return None
    against = next((text for passed, text in found if not passed), None)
    text = "; ".join(text for _, text in found) if against is None else f"{against}: they are not of one run"
    return TrustCheck("the trace shows the model and settings of its run", against is None, text, KERNEL_TIME)


def _layers(run: Run, account: DeviceAccount) -> tuple[bool, str] | None:
    stated = run.fact("model.num_layers")
    if not isinstance(stated, int) or stated <= 0 or not account.layers:
        return None
    # A rank of a pipeline has some of the layers, and a draft model has its own.
    if run.fact("setting.pipeline_parallel") not in (None, 1) or run.fact("setting.speculative") is not None:
        return None
    # Not every layer of a hybrid model has attention, of which the layers are told: then one in so many has.
    return stated % account.layers == 0, f"its steps show {account.layers} layers and the model has {stated}"


def _graphs(run: Run, account: DeviceAccount) -> tuple[bool, str] | None:
    assert account.steps is not None
    decodes = np.array([label.phase == "decode" for label in account.steps.spans.labels], bool)
    if run.fact("setting.cuda_graph") is not False or not decodes.any():
        return None
    share = float(np.mean(account.steps.graph_launches[decodes] > 0))
    return share < _SOME, f"graphs are off by the settings and {share:.0%} of its decode steps replay one"


def _batches(run: Run, account: DeviceAccount) -> tuple[bool, str] | None:
    assert account.steps is not None
    limit = run.fact("setting.max_num_seqs")
    decoding = [label.decode_requests for label in account.steps.spans.labels if label.decode_requests is not None]
    if isinstance(limit, bool) or not isinstance(limit, int) or limit <= 0 or not decoding:
        return None
    return max(decoding) <= limit, f"a step of it decodes {max(decoding)} sequences and the limit is {limit}"


# Steps that replay a graph of another part of the model, such as an encoder, are fewer.
_SOME: Final = 0.5


def contradicted(run: Run, account: DeviceAccount) -> tuple[TrustCheck, ...]:
    """The failed checks of a device's trace against the rest of its run."""
    trace = next((t for t in run.traces if t.path == account.trace), None)
    checks = belongs_of(run, account), None if trace is None else busy_of(run, trace, account)
    return tuple(check for check in checks if check is not None and check.passed is False)
