"""Same conditions: hardware, clocks, limits, the way to the server."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from profiler.analyzers.causes.hardware import median_clock, throttled_share
from profiler.analyzers.fairness.rule import (
    Finding,
    Rule,
    compared,
    failed,
    inapplicable,
    pair,
    passed,
    sources,
    stated,
    unknown,
)
from profiler.analyzers.fairness.side import Side

CLOCKS: Final = 0.02
THROTTLED: Final = 0.01
SAY_HARDWARE: Final = "say it under hardware in run.json"


def _same_hardware(a: Side, b: Side) -> Finding:
    """One kind and number of devices."""
    keys = ("hardware.gpu", "hardware.count", "hardware.cpu", "hardware.cores")
    return compared(
        a,
        b,
        keys,
        equal="the stated hardware is the same",
        other="hardware differs",
        fix="measure on one machine",
        need=SAY_HARDWARE,
    )


def _same_driver(a: Side, b: Side) -> Finding:
    keys = ("hardware.driver", "hardware.cuda", "hardware.rocm", "hardware.nccl", "hardware.kernel")
    return compared(
        a,
        b,
        keys,
        equal="the stated versions are the same",
        other="software under the engine differs",
        fix="measure on one machine, one image",
        need=SAY_HARDWARE,
    )


def _same_clocks(a: Side, b: Side) -> Finding:
    if a.on_cpu and b.on_cpu:
        return inapplicable("no accelerator whose clocks could be read")
    clocks, throttled = [median_clock(side.run) for side in (a, b)], [throttled_share(side.run) for side in (a, b)]
    source = "; ".join(dict.fromkeys(c.path for side in (a, b) for c in side.run.counters)) or "no file"
    shown = (
        pair("median SM clock", (clocks[0], clocks[1]), "Hz", source),
        pair("samples throttled", (throttled[0], throttled[1]), "fraction", source),
    )
    slowed = [share for share in throttled if share is not None]
    if clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > CLOCKS:
        return failed(
            f"clocks differ by {abs(clocks[1] / clocks[0] - 1):.1%}: part of a gap is the hardware's state",
            *shown,
            fix="lock the clocks, cool down, alternate the runs",
        )
    if any(share > THROTTLED for share in slowed):
        return failed(
            f"a device was throttled in {max(slowed):.0%} of the samples",
            *shown,
            fix="look at power limit and temperature; lock the clocks",
        )
    if not (clocks[0] and clocks[1]) or len(slowed) < 2:
        return unknown(
            "not both runs hold clocks and throttle reasons", *shown, fix="sample nvidia-smi or DCGM beside the load"
        )
    return passed("equal clocks, not throttled", *shown)


def _exclusive_machine(a: Side, b: Side) -> Finding:
    keys = ("hardware.exclusive",)
    said = [side.fact(*keys) for side in (a, b)]
    if False in said:
        return failed(
            "a run says that others used its machine",
            stated("exclusive", a, b, *keys),
            fix="measure on an idle machine",
        )
    if said == [True, True]:
        return passed("both runs say that nobody else used the machine", stated("exclusive", a, b, *keys))
    return unknown(
        "no file that is read lists other processes", fix="say hardware.exclusive in run.json, true or false"
    )


def _host_of(side: Side) -> str | None:
    """The host that the client was pointed at."""
    words = side.fact("workload.client_command")
    if not isinstance(words, list | tuple):
        return None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, _, value = str(word).partition("=")
        if flag in ("--base-url", "--url", "--host"):
            address = value or str(following)
            try:
                return urlsplit(address if "//" in address else f"//{address}").hostname
            except ValueError:
                return None
    return None


def _same_way_to_server(a: Side, b: Side) -> Finding:
    between = [", ".join(dict.fromkeys(c.title for c in side.run.components)) or "nothing" for side in (a, b)]
    hosts = [_host_of(side) for side in (a, b)]
    source = sources(a, b, "workload.client_command")
    shown = pair("host called", (hosts[0], hosts[1]), source=source), pair("beside the engine", between, source=source)
    if between[0] != between[1]:
        return failed(
            f"beside the engine stood {between[0]} and {between[1]}",
            *shown,
            fix="send to the server directly, or through one router",
            severity="warn",
        )
    if None in hosts:
        return unknown("not both runs state where the client sent to", *shown, fix="keep the client's command")
    if hosts[0] != hosts[1]:
        return failed(f"the client called {hosts[0]} and {hosts[1]}", *shown, fix="place the client alike")
    return passed(f"both clients called {hosts[0]}", *shown)


def _same_limits(a: Side, b: Side) -> Finding:
    keys = ("hardware.cpu_limit", "hardware.memory_limit", "hardware.threads", "hardware.cores", "hardware.ram_gb")
    return compared(
        a,
        b,
        keys,
        equal="what is stated is the same",
        other="the servers' resources differ",
        fix="give both servers the same cores and memory",
        need=SAY_HARDWARE,
    )


RULES: Final = (
    Rule("F-17", "same_hardware", "block", _same_hardware),
    Rule("F-18", "same_driver", "warn", _same_driver),
    Rule("F-19", "same_clocks", "warn", _same_clocks),
    Rule("F-20", "exclusive_machine", "block", _exclusive_machine),
    Rule("F-21", "same_way_to_server", "warn", _same_way_to_server),
    Rule("F-22", "same_limits", "warn", _same_limits),
)
