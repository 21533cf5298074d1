"""The step of a mixture of two runs: one's device beside the other's host, for the replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from profiler.analyzers.gap.contention import Paces, Traced, beside, read
from profiler.analyzers.gap.ledger import UNEXPLAINED
from profiler.analyzers.gap.played import NOTHING, Player, linear
from profiler.analyzers.gap.replay import SHORTEST, StepCost, replay, summed


class Side:
    """One run's steps, read as contention.py reads them.

    Where the engine schedules asynchronously a replay lets host and device run beside each other, so that a long step
    lets the host get ahead; ``kept`` is then what makes the replay as long as the run, and ``scale`` what is still
    missing.
    """

    def __init__(self, player: Player) -> None:
        model = player.model
        self._model, self._whole = model, player.cost
        self.kept, self.scale = model.kept, 1.0
        self._parts = (
            summed(linear(shape) for shape in model.device.values()),
            summed(linear(shape) for shape in model.host.values()),
            summed(linear(shape) for (cause, _), shape in model.host.items() if cause == "scheduling"),
            NOTHING if model.launching is None else linear(model.launching),
            NOTHING if model.period is None else linear(model.period),
        )

    def at(self, decode: int, prefill_tokens: int) -> Paces[float]:
        """Seconds of a step of this composition."""
        parts = Traced(*(part.signed(decode, prefill_tokens) for part in self._parts))
        kept = self.kept.at(decode, prefill_tokens)
        return read(self._model, kept, self._whole.seconds(decode, prefill_tokens), parts)


def settle(side: Side, player: Player, duration: float) -> None:
    """Find the side's ``kept`` and ``scale`` with which the player's replay takes ``duration`` seconds."""
    alone = Contended(side, side, {}, 1.0, True)

    def played() -> float:
        alone.known.clear()
        mixture = alone.mixture(frozenset())
        return replay(player.demand, player.rules, mixture, player.between, player.front).duration

    found = played()
    step = 0.5
    while step > _FINE and abs(found / duration - 1.0) > _FINE:
        tried, before = side.kept, found
        side.kept = tried.times(1.0 + step if found < duration else 1.0 / (1.0 + step))
        found = played()
        if abs(found / duration - 1.0) >= abs(before / duration - 1.0):
            side.kept, found = tried, before
            step /= 2.0
    side.scale = duration / found


_FINE = 0.002


@dataclass(frozen=True)
class Contended:
    """Both runs' steps, and what each cause changes of the device's time (``device``). ``launches`` is the share of the
    host's change that launches make; the rest is the scheduler's."""

    a: Side
    b: Side
    device: Mapping[str, StepCost]
    launches: float
    both_serial: bool
    known: dict[tuple[int, int], tuple[Paces[float], Paces[float]]] = field(default_factory=dict)

    def at(self, decode: int, prefill_tokens: int) -> tuple[Paces[float], Paces[float]]:
        """A's step of this composition and B's."""
        key = decode, prefill_tokens
        if key not in self.known:
            self.known[key] = self.a.at(*key), self.b.at(*key)
        return self.known[key]

    def mixture(self, causes: frozenset[str]) -> Mixture:
        """With the parts of these causes from B."""
        device = summed(change for cause, change in self.device.items() if cause in causes)
        launches = 1.0 if self.both_serial else self.launches
        host = launches * ("cuda_graph" in causes) + (1.0 - launches) * ("scheduling" in causes)
        return Mixture(self, device, host, float("scheduling" in causes), float(UNEXPLAINED in causes))


@dataclass(frozen=True)
class Mixture:
    """``device`` is added to A's device; ``host``, ``serial`` and ``rest`` are the shares of B in those parts."""

    pair: Contended
    device: StepCost
    host: float
    serial: float
    rest: float
    # Steps of one composition come again and again.
    known: dict[tuple[int, int], float] = field(default_factory=dict)
    known_pipelined: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)

    def seconds(self, decode: int, prefill_tokens: int) -> float:
        """Of a step that decodes so many sequences and computes so many prompt tokens."""
        key = decode, prefill_tokens
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._seconds(*key)
        return found

    def _seconds(self, decode: int, prefill_tokens: int) -> float:
        a, b = self.pair.at(decode, prefill_tokens)
        host = Paces(
            a.device,
            a.host + self.host * (b.host - a.host),
            a.serial + self.serial * (b.serial - a.serial),
            a.rest + self.rest * (b.rest - a.rest),
        )
        return max(beside(a.device + self.device.signed(decode, prefill_tokens), host), SHORTEST)

    def pipelined(self, decode: int, prefill_tokens: int) -> tuple[float, float]:
        """(seconds of the device, seconds of the host) of such a step under asynchronous scheduling."""
        key = decode, prefill_tokens
        found = self.known_pipelined.get(key)
        if found is None:
            found = self.known_pipelined[key] = self._pipelined(*key)
        return found

    def _pipelined(self, decode: int, prefill_tokens: int) -> tuple[float, float]:
        a, b = self.pair.at(decode, prefill_tokens)
        device = a.device + self.device.signed(decode, prefill_tokens)
        host = a.host + self.host * (b.host - a.host)
        scale = self.pair.a.scale + self.rest * (self.pair.b.scale - self.pair.a.scale)
        serial = a.serial + self.serial * (b.serial - a.serial)
        return max(device + serial, SHORTEST) * scale, (host + serial) * scale
