"""The plan of a load: one seed one plan, arrivals with the distribution that they promise, lengths, data sets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.collectors.client.arrivals import SECOND, Arrival, due_times
from profiler.collectors.client.body import body_of, check
from profiler.collectors.client.lengths import Lengths, parse_lengths
from profiler.collectors.client.plan import Request, digest, encode, read_plan
from profiler.collectors.client.prompts import token_ids, words
from profiler.collectors.client.workload import Workload, make_plan
from profiler.collectors.engines import ENGINES
from profiler.collectors.openai_api import endpoints
from profiler.errors import BadInput, UsageError

# The Kolmogorov-Smirnov statistic of n draws passes K / sqrt(n) once in 10,000 samples (K = 2.226).
KS_BOUND = 2.226
RANDOM = Workload(rates=(4.0,), requests=50)


def ks(values: np.ndarray, distribution: Callable[[float], float]) -> float:
    """sqrt(n) times the largest distance between the empirical distribution and the one that was promised."""
    ordered = np.sort(values)
    n = len(ordered)
    expected = np.array([distribution(float(value)) for value in ordered])
    above, below = np.arange(1, n + 1) / n - expected, expected - np.arange(n) / n
    return math.sqrt(n) * float(max(above.max(), below.max()))


def gaps(arrival: Arrival, rate: float, burstiness: float, seed: int, n: int = 2000) -> np.ndarray:
    due = np.array(list(islice(due_times(arrival, rate, burstiness, Random(f"{seed}/arrivals/0")), n + 1)))
    return np.diff(due) / SECOND


@pytest.mark.parametrize("rate", [0.5, 4.0, 200.0])
@pytest.mark.parametrize("seed", range(5))
def test_poisson_gaps_are_exponential(rate: float, seed: int) -> None:
    assert ks(gaps("poisson", rate, 1.0, seed), lambda x: 1 - math.exp(-rate * x)) < KS_BOUND


@pytest.mark.parametrize("seed", range(5))
def test_gamma_gaps_of_shape_two_are_erlang(seed: int) -> None:
    assert ks(gaps("gamma", 4.0, 2.0, seed), lambda x: 1 - math.exp(-8 * x) * (1 + 8 * x)) < KS_BOUND


def test_the_test_of_the_distribution_can_fail() -> None:
    assert ks(gaps("constant", 4.0, 1.0, 0), lambda x: 1 - math.exp(-4 * x)) > KS_BOUND
    assert ks(gaps("gamma", 4.0, 0.5, 0), lambda x: 1 - math.exp(-4 * x)) > KS_BOUND
    repeated = np.repeat(gaps("poisson", 4.0, 1.0, 0, 200), 10)
    assert ks(repeated, lambda x: 1 - math.exp(-4 * x)) > KS_BOUND


def test_the_arrivals_of_a_whole_plan_are_poisson() -> None:
    plan, _ = make_plan(replace(RANDOM, requests=3000, warmup=0))
    due = np.array([one.due for one in plan.of(0, "load")]) / SECOND
    assert due[0] == 0 and ks(np.diff(due), lambda x: 1 - math.exp(-4 * x)) < KS_BOUND


@settings(max_examples=30, deadline=None)
@given(rate=st.floats(0.01, 5000), burstiness=st.floats(0.1, 10), seed=st.integers(0, 2**63 - 1))
def test_due_times_never_go_back_and_keep_the_rate(rate: float, burstiness: float, seed: int) -> None:
    for arrival in ("poisson", "constant", "gamma"):
        due = list(islice(due_times(arrival, rate, burstiness, Random(seed)), 400))
        assert due[0] == 0 and all(earlier <= later for earlier, later in pairwise(due))
    constant = list(islice(due_times("constant", rate, 1.0, Random(seed)), 400))
    assert constant[-1] == pytest.approx(399 / rate * SECOND, abs=1)


# ----------------------------------------------------------------------------------------------------------------- seed
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    points=st.lists(st.sampled_from([0.5, 4.0, 100.0]), min_size=1, max_size=3),
    lengths=st.sampled_from(["7", "1-300", "normal:200:80", "lognormal:100:0.7"]),
    prefix=st.none() | st.tuples(st.integers(1, 5), st.integers(1, 300)),
    arrival=st.sampled_from(["poisson", "constant", "gamma"]),
)
def test_one_seed_is_one_plan_bit_for_bit(
    seed: int, points: list[float], lengths: str, prefix: tuple[int, int] | None, arrival: Arrival
) -> None:
    work = Workload(rates=points, seed=seed, requests=20, warmup=2, input=parse_lengths(lengths),
                    output=parse_lengths(lengths), shared_prefix=prefix, arrival=arrival)  # fmt: skip
    first, again = encode(make_plan(work)[0]), encode(make_plan(work)[0])
    assert first == again
    assert digest(encode(make_plan(replace(work, seed=seed ^ 1))[0])) != digest(first)


PINNED: list[tuple[int, tuple[tuple[str, int], ...], int]] = [
    (0, (("0.group-0", 32), ("0.0", 343)), 44),
    (79699403, (("0.group-0", 32), ("0.1", 1022)), 60),
    (123791278, (("0.group-0", 32), ("0.2", 211)), 15),
]
PINNED_IDS = [6494, 16465, 3581, 13650]
PINNED_WORDS = ["no", "between", "or", "because"]


def test_the_plan_of_a_seed_is_the_same_in_every_version() -> None:
    """What was planned once has to be planned again: a change here breaks comparisons with runs that exist."""
    work = Workload(rates=(4.0,), seed=7, requests=3, warmup=1, input=parse_lengths("lognormal:300:0.5"),
                    output=parse_lengths("8-64"), shared_prefix=(2, 32))  # fmt: skip
    plan, _ = make_plan(work)
    assert [(one.due, one.parts, one.out) for one in plan.of(0, "load")] == PINNED
    assert token_ids(PINNED[0][1], 7, 20_000)[:4] == PINNED_IDS
    assert words(PINNED[0][1], 7).split()[:4] == PINNED_WORDS


def test_a_written_plan_is_read_as_it_was(tmp_path: Path) -> None:
    plan, _ = make_plan(replace(RANDOM, shared_prefix=(3, 64)))
    (tmp_path / "plan.jsonl").write_bytes(encode(plan))
    read, data = read_plan(tmp_path / "plan.jsonl")
    assert read == plan and data == encode(plan)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", "line 1"),
        (b'{"schema":"profiler.plan/9","seed":0,"form":"ids","vocabulary":9,"source":"","points":[]}\n', "line 1"),
        (b"not json\n", "line 1"),
        (None, "line 3"),
    ],
)
def test_a_damaged_plan_is_refused_with_its_line(data: bytes | None, place: str, tmp_path: Path) -> None:
    if data is None:
        lines = encode(make_plan(RANDOM)[0]).splitlines()
        data = b"\n".join([*lines[:2], lines[2][:-5], *lines[3:]])
    (tmp_path / "plan.jsonl").write_bytes(data)
    with pytest.raises(BadInput) as refused:
        read_plan(tmp_path / "plan.jsonl")
    assert refused.value.place == place


# ------------------------------------------------------------------------------------------------------ lengths, shapes
@pytest.mark.parametrize(
    ("text", "cdf"),
    [
        ("normal:512:64", lambda x: NormalDist(512, 64).cdf(x + 0.5)),
        ("lognormal:512:0.6", lambda x: NormalDist(math.log(512), 0.6).cdf(math.log(x + 0.5))),
        ("1-100000", lambda x: x / 100_000),
    ],
)
def test_lengths_have_the_distribution_that_they_name(text: str, cdf: Callable[[float], float]) -> None:
    random, lengths = Random(5), parse_lengths(text)
    drawn = np.array([lengths.draw(random) for _ in range(2000)], np.float64)
    # Whole tokens are a staircase: half a step at the density of the mode.
    assert ks(drawn, cdf) < KS_BOUND + math.sqrt(2000) * 0.01
    assert drawn.min() >= 1


@pytest.mark.parametrize("text", ["0", "-4", "9-3", "x", "normal:5", "normal:0:1", "lognormal:5:9", "1e3", "", "9" * 9])
def test_lengths_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="is no length"):
        parse_lengths(text)


def test_changing_one_thing_leaves_the_others() -> None:
    plain = make_plan(RANDOM)[0].of(0, "load")
    longer = make_plan(replace(RANDOM, output=Lengths("uniform", 9, 99)))[0].of(0, "load")
    faster = make_plan(replace(RANDOM, rates=(8.0,)))[0].of(0, "load")
    assert [one.parts for one in plain] == [one.parts for one in longer] == [one.parts for one in faster]
    assert [one.due for one in plain] == [one.due for one in longer]


def test_groups_share_a_prefix_and_points_share_nothing() -> None:
    plan, _ = make_plan(Workload(rates=(1.0, 2.0), requests=40, shared_prefix=(3, 16), input=parse_lengths("8")))
    prompts = [token_ids(one.parts, plan.head.seed, plan.head.vocabulary) for one in plan.requests]
    assert {len(prompt) for prompt in prompts} == {8, 24}
    for index in (0, 1):
        beginnings = {tuple(token_ids(one.parts, 0, 20_000)[:16]) for one in plan.of(index, "load")}
        assert len(beginnings) == 3
    tails = [tuple(token_ids(one.parts, 0, 20_000)[-8:]) for one in plan.requests]
    assert len(set(tails)) == len(tails)  # no prompt is sent twice, the warm-up's included


@given(vocabulary=st.integers(16, 300_000), seed=st.integers(0, 99))
def test_token_ids_stay_in_the_vocabulary(vocabulary: int, seed: int) -> None:
    ids = token_ids((("a", 200),), seed, vocabulary)
    assert len(ids) == 200 and min(ids) > 0 and max(ids) < vocabulary and len(set(ids)) > 4


def test_durations_and_requests_bound_a_load() -> None:
    timed, _ = make_plan(Workload(rates=(10.0,), duration=30.0))
    assert 200 < len(timed.of(0, "load")) < 400
    assert max(one.due or 0 for one in timed.of(0, "load")) < 30 * SECOND
    assert len(make_plan(Workload(rates=(10.0,), duration=30.0, requests=5))[0].of(0, "load")) == 5
    assert len(make_plan(Workload(concurrencies=(2,)))[0].of(0, "load")) == 200
    assert len(make_plan(Workload(concurrencies=(32,), duration=10.0))[0].of(0, "load")) == 32 * 10 * 4


@pytest.mark.parametrize(
    "work",
    [
        Workload(),
        Workload(rates=(1.0, 2.0), concurrencies=(1, 2)),
        Workload(rates=(1.0,), arrival="recorded"),
    ],
)
def test_loads_that_are_none(work: Workload) -> None:
    with pytest.raises(UsageError):
        make_plan(work)


# ------------------------------------------------------------------------------------------------------------ data sets
def dataset(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "data"
    path.write_text(text, "utf-8")
    return path


def test_json_lines_of_a_user(tmp_path: Path) -> None:
    records: list[object] = [
        {"prompt": "hello there", "max_tokens": 5},
        {"prompt": [4, 5, 6], "output_tokens": 7},
        {"messages": [{"role": "user", "content": "hi"}]},
        {"nothing": 1},
        [1],
    ]
    path = dataset(tmp_path, "\n".join(map(json.dumps, records)) + "\n{broken\n")
    plan, notes = make_plan(Workload(concurrencies=(1,), dataset=path))
    load = plan.of(0, "load")
    assert [(one.text, one.ids, one.messages is not None, one.out) for one in load] == [
        ("hello there", None, False, 5), (None, (4, 5, 6), False, 7), (None, None, True, 128),
    ]  # fmt: skip
    assert "3 rows can't be sent" in notes[0]


def test_sharegpt(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "why?"}, {"from": "gpt", "value": "x" * 400}]
    path = dataset(tmp_path, json.dumps([{"id": "a", "conversations": turns}, {"conversations": turns[:1]}]))
    plan, notes = make_plan(Workload(rates=(1.0,), dataset=path))
    assert [(one.text, one.out) for one in plan.of(0, "load")] == [("why?", 100)]
    assert len(notes) == 1


def test_mooncake_keeps_times_and_shared_blocks(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 1000, "input_length": 1100, "output_length": 3, "hash_ids": [46, 47, 48]},
        {"timestamp": 1000, "input_length": 1030, "output_length": 4, "hash_ids": [46, 47, 99]},
        {"timestamp": 3500, "input_length": 10, "output_length": 5},
    ]
    plan, _ = make_plan(Workload(dataset=dataset(tmp_path, "\n".join(map(json.dumps, rows)))))
    load = plan.of(0, "load")
    assert [one.due for one in load] == [0, 0, 2_500_000_000]
    assert plan.head.points[0].arrival == "recorded" and plan.head.points[0].rate == pytest.approx(2 / 2.5)
    prompts = [token_ids(one.parts, 0, 20_000) for one in load]
    assert [len(prompt) for prompt in prompts] == [1100, 1030, 10]
    assert prompts[0][:1024] == prompts[1][:1024] and prompts[0][1024:1030] != prompts[1][1024:]


BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,0,417,Conversation log
125,GPT-4,20,1,21,API log
"""
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,110,27
"""


def test_burstgpt_and_azure(tmp_path: Path) -> None:
    plan, notes = make_plan(Workload(dataset=dataset(tmp_path, BURST)))
    assert [(one.due, one.parts[0][1], one.out) for one in plan.of(0, "load")] == [
        (0, 472, 18), (40 * SECOND, 1087, 230), (120 * SECOND, 20, 1),
    ]  # fmt: skip
    assert "1 rows" in notes[0]
    plan, _ = make_plan(Workload(dataset=dataset(tmp_path, AZURE)))
    assert plan.of(0, "load")[1].due == pytest.approx(52_000_000, abs=1000)


def test_a_rate_stretches_recorded_times(tmp_path: Path) -> None:
    plan, _ = make_plan(Workload(rates=(1.0,), arrival="recorded", dataset=dataset(tmp_path, BURST)))
    assert [one.due for one in plan.of(0, "load")] == [0, pytest.approx(2 / 3 * SECOND, abs=1), 2 * SECOND]


def test_points_of_a_sweep_take_different_rows(tmp_path: Path) -> None:
    path = dataset(tmp_path, "".join(json.dumps({"prompt": f"p{i}"}) + "\n" for i in range(10)))
    plan, _ = make_plan(Workload(concurrencies=(1, 2), requests=4, dataset=path))
    assert [[one.text for one in plan.of(i, "load")] for i in (0, 1)] == [
        ["p0", "p1", "p2", "p3"],
        ["p4", "p5", "p6", "p7"],
    ]
    with pytest.raises(UsageError, match="too few"):
        make_plan(Workload(concurrencies=(1, 2, 3), requests=5, dataset=path))


@pytest.mark.parametrize(
    "text",
    ["", "a,b,c\n1,2,3\n", "[1, 2", '{"prompt": 1}\n', "TIMESTAMP,ContextTokens,GeneratedTokens\nnever,1,1\n"],
)
def test_files_that_are_no_data_set(text: str, tmp_path: Path) -> None:
    with pytest.raises((UsageError, BadInput)):
        make_plan(Workload(rates=(1.0,), dataset=dataset(tmp_path, text)))


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=200) | st.sampled_from([BURST, AZURE]).flatmap(
    lambda text: st.integers(0, len(text)).map(lambda at: text[:at].encode() + b"\xff\x00" + text[at:].encode())))  # fmt: skip
def test_any_bytes_raise_nothing_but_our_errors(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "dataset"
    path.write_bytes(data)
    try:
        plan, _ = make_plan(Workload(rates=(1.0,), requests=5, dataset=path))
    except (UsageError, BadInput):
        return
    assert len(plan.of(0, "load")) <= 5


# --------------------------------------------------------------------------------------------------------------- bodies
def test_every_engine_says_how_a_request_is_spelled() -> None:
    head = make_plan(RANDOM)[0].head
    words_head = make_plan(replace(RANDOM, form="text"))[0].head
    for engine in ENGINES:
        assert engine.owner and {one.name for one in engine.endpoints} >= {"completions", "chat"}
        for endpoint in engine.endpoints:
            request = Request(0, 0, 9, parts=(("a", 5),))
            body = json.loads(body_of(words_head, request, endpoint, "m", True, {"seed": 1}))
            flat = json.dumps(body)
            assert body["stream"] is True and "ignore_eos" in flat and body["seed"] == 1
            assert "continuous_usage_stats" not in flat or endpoint.running
            if endpoint.ids is not None:
                body = json.loads(body_of(head, request, endpoint, "m", False, {}))
                assert len(body[endpoint.ids]) == 5 and "ignore_eos" not in json.dumps(body)


def test_a_server_that_is_not_known_gets_nothing_of_an_engines_own() -> None:
    head = make_plan(RANDOM)[0].head
    body = json.loads(body_of(head, Request(0, 0, 9, text="x"), endpoints()[0], "m", True, {}))
    assert body == {"model": "m", "prompt": "x", "max_tokens": 9, "temperature": 0, "stream": True,
                    "stream_options": {"include_usage": True}}  # fmt: skip


def test_prompts_that_an_endpoint_does_not_take_are_refused_before_anything_is_sent() -> None:
    plan, _ = make_plan(RANDOM)
    check(plan, endpoints()[0])
    with pytest.raises(UsageError, match="token ids"):
        check(plan, endpoints()[1])
    check(make_plan(replace(RANDOM, form="text"))[0], endpoints()[1])
