"""The figures of a run's collectives: exposed and hidden time, message sizes and bandwidths, waiting across ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from profiler.analyzers.bandwidth import Moved, moved, spread_of, transfers
from profiler.analyzers.communication import AcrossRanks, across_ranks, totals_of
from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.figure_rows import FigureRows
from profiler.model.counters import GpuCounters
from profiler.model.fact import Fact
from profiler.model.inspection import Figure
from profiler.model.run import Run
from profiler.store.ranks import rank_problems

_LONGEST: Final = 5
_NEEDS: Final = (
    "needs the arguments that torch writes to record_param_comms, or shapes (record_shapes=True); or, for an "
    "all-reduce, the model's hidden_size and dtype and annotations that state the steps' tokens"
)


def communication_figures(run: Run, accounts: Sequence[DeviceAccount], across: AcrossRanks | None) -> list[Figure]:
    """Every figure about collectives that the traces of a run carry; ``across`` is what ``aligned`` gives."""
    found: list[Figure] = []
    sizes = {trace.path: trace.world_size for trace in run.traces}
    for account in accounts:
        found += _collectives(account, run.facts, across, sizes[account.trace])
    found += [figure for counters in run.counters for figure in _links(counters)]
    return found if across is None else found + _across(across)


def _links(counters: GpuCounters) -> list[Figure]:
    """What the devices' own counters say went over their links while they were in use."""
    rows = FigureRows("communication", counters.path)
    busy = np.nan_to_num(counters.utilisation, nan=1.0) > 0
    for link, values in counters.links.items():
        known = values[busy & np.isfinite(values)]
        if len(known):
            rows.add(f"{link}, a device", float(known.mean()), "bytes/s", f"at most {known.max() / 1e9:.3g} GB/s")
    return rows.rows


def aligned(run: Run, accounts: Sequence[DeviceAccount]) -> AcrossRanks | None:
    """The run's ranks joined by their collectives; None where they can't be."""
    bases = {trace.path: trace.base for trace in run.traces}
    if len(run.workers) > 1:
        return None  # ranks of several engines are of several jobs, whose equal collectives are not the same
    # A copy would be its own twin, and of clocks that share no moment it is not known which collectives are the same.
    if any(bases[a.trace] == 0 for a in accounts) or any(p.severity == "warning" for p in rank_problems(run.traces)):
        return None
    return across_ranks([(account.source, bases[account.trace], account.collectives) for account in accounts])


def _collectives(
    account: DeviceAccount, facts: Mapping[str, Fact[object]], across: AcrossRanks | None, world_size: int | None
) -> list[Figure]:
    rows = FigureRows("communication", account.source)
    totals = totals_of(account.collectives)
    alone = None
    if across is not None:
        place = [rank.trace for rank in across.ranks].index(account.source) if totals else None
        alone = None if place is None else transfers(account.collectives, across.rows[place], across.transfer)
    sized = moved(account.collectives, facts, alone, world_size)
    for total in totals[:_LONGEST]:
        rows.add(f"exposed: {total.kernel[:100]}", total.exposed, "s",
                 f"{total.calls:,} calls of {total.seconds:.3g} s, {total.hidden:.3g} s under compute")  # fmt: skip
        mine = [one for one in sized if one.kernel == total.kernel]
        for one in mine[:_LONGEST]:
            _moved(rows, one)
        if not mine:
            rows.add(f"message: {total.kernel[:100]}", None, "bytes", _NEEDS)
    rest = totals[_LONGEST:]
    if rest:
        rows.add(f"exposed: {len(rest)} other kernels", sum(t.exposed for t in rest), "s")
    return rows.rows


def _moved(rows: FigureRows, one: Moved) -> None:
    title = f"{one.operation} by {one.kernel[:80]}"
    low, middle, high = spread_of(one.sizes)
    group = "a group of unknown size" if one.ranks is None else f"{one.ranks} ranks"
    group += "" if one.group is None else f" ({one.group})"
    detail = f"median; {low:,.0f} to {high:,.0f} bytes among {group}; {one.calls:,} of {one.of:,} calls; {one.source}"
    rows.add(f"message: {title}", middle, "bytes", detail)
    timed = "its transfer alone, without waiting" if one.transfer else "its time holds any waiting for other ranks"
    rows.add(f"algorithm bandwidth: {title}", one.algorithm, "bytes/s", f"bytes over seconds of all calls; {timed}")
    if one.bus is None:
        rows.add(f"bus bandwidth: {title}", None, "bytes/s", f"needs the group's size n, for {one.formula}")
    else:
        factor = "1" if one.formula is None else f"{one.formula} = {one.factor:.4g}"
        rows.add(f"bus bandwidth: {title}", one.bus, "bytes/s", f"algorithm bandwidth x {factor} (nccl-tests)")


def _across(found: AcrossRanks) -> list[Figure]:
    rows = FigureRows("communication", f"{len(found.ranks)} ranks")
    straggler = found.straggler
    for rank in found.ranks:
        detail = f"{rank.transfer:.3g} s transfer; last in {rank.last:,} of {found.matched:,}; "
        detail += f"clock {rank.offset:+.3g} s, known to {found.spread:.2g} s"
        detail += "; the straggler" if rank is straggler else ""
        rows.add(f"waiting for other ranks: {rank.trace}", rank.waiting, "s", detail)
    if found.unmatched:
        rows.add("collectives that not every rank has", found.unmatched, "count")
    return rows.rows
