"""Diagnosis and inspection documents to draw: a realistic pair, a null pair, traces only, hostile names, nothing."""

from __future__ import annotations

from profiler.model.diagnosis import (
    SCHEMA,
    Additive,
    Cause,
    Diagnosis,
    Evidence,
    FairnessRule,
    Gap,
    KernelRow,
    Part,
    Prediction,
    Recommendation,
    RoleRow,
    RunSummary,
    Unexplained,
    Verdict,
)
from profiler.model.document import DocumentProblem, EngineRef
from profiler.model.inspection import (
    InspectedComponent,
    InspectedDevice,
    InspectedFile,
    InspectedOperator,
    InspectedSteps,
    InspectedTotals,
    Inspection,
    LaunchedBy,
)
from tests.reports import step_pairs

HOSTILE = (
    '</script><script>document.title="pwned"</script><img src=x onerror=alert(1)>'
    "\"'`{{7*7}}{% raw %}%{x}\u202e\x1b[31m@team|"
)


def run(name: str, engine: str, version: str, **metrics: float) -> RunSummary:
    """A run of the realistic pair."""
    return RunSummary(
        name=name,
        path=f"runs/{name}",
        engine=EngineRef(name=engine, version=version, source="server.log:12"),
        metrics=metrics,
        facts={"model": "Qwen3-32B", "gpu": "NVIDIA H200", "repeats": "3"},
    )


def _trace(name: str) -> str:
    return f"trace/{name}.pt.trace.json.gz"


def throughput_gap() -> Gap:
    """Output throughput, 36% less, mostly batching."""
    batching = Cause(
        cause="batching",
        gap=-1499.1,
        share=0.7002,
        interval=(-1560.2, -1438.9),
        extrapolated=False,
        summary="run-B's steps carried 38 sequences where run-A's carried 89; `--max-running-requests 40` is the cap",
        evidence=(
            Evidence(name="sequences per step", a=89.2, b=38.4, unit="sequences", source=_trace("decode")),
            Evidence(name="steps with requests waiting", a=0.021, b=0.943, unit="fraction", source="metrics/*.txt"),
            Evidence(name="limit", a="256", b="40", unit="", source="server.log:31"),
        ),
        parts=(
            Part(name="request limit", gap=-1402.0, share=0.655, interval=(-1461.0, -1340.0)),
            Part(name="token budget", gap=-97.1, share=0.0454),
        ),
    )
    scheduling = Cause(
        cause="scheduling",
        gap=-406.8,
        share=0.19,
        interval=(-470.0, -350.5),
        extrapolated=False,
        summary="the GPU waited 0.86 ms between steps (run-A: 0.09 ms) because the overlap scheduler is off",
        evidence=(
            Evidence(name="idle between steps", a=0.00009, b=0.00086, unit="s", source=_trace("decode")),
            Evidence(name="queue time", a=0.012, b=None, unit="s", source="metrics/*.txt"),
        ),
    )
    kernel = Cause(
        cause="kernel",
        gap=-228.7,
        share=0.1068,
        interval=(-281.0, -180.4),
        extrapolated=True,
        summary="decode attention takes 1.6x as long at an equal batch",
        evidence=(Evidence(name="attention per step", a=0.00188, b=0.00301, unit="s", source=_trace("decode")),),
        parts=(Part(name="attention", gap=-251.0, share=0.1172), Part(name="gemm", gap=22.3, share=-0.0104)),
    )
    graph = Cause(
        cause="cuda_graph",
        gap=0.0,
        share=0.0,
        interval=(-4.1, 4.4),
        extrapolated=False,
        summary="none: both replay 100% of decode steps",
    )
    return Gap(
        metric="output_throughput",
        unit="tokens/s",
        higher_is_better=True,
        a=5919.2,
        b=3778.2,
        gap=-2141.0,
        relative=-0.3617,
        interval=(-2190.1, -2095.3),
        winner="a",
        causes=(kernel, graph, scheduling, batching),
        unexplained=Unexplained(
            gap=-6.4,
            share=0.003,
            summary="1 part could not be told apart",
            parts=(Part(name="kernel or communication", gap=-6.4),),
        ),
        seconds_per_output_token=Additive(a=0.00016894, b=0.00026468, gap=0.00009574, factor=-2141.0 / 0.00009574),
    )


def latency_gap(metric: str = "mean_tpot", scale: float = 1.0) -> Gap:
    """A latency gap whose interval holds zero."""
    return Gap(
        metric=metric,
        unit="s",
        higher_is_better=False,
        a=0.0111 * scale,
        b=0.0108 * scale,
        gap=-0.0003 * scale,
        relative=-0.027,
        interval=(-0.0009 * scale, 0.0004 * scale),
        winner=None,
        causes=(
            Cause(
                cause="batching",
                gap=-0.0005 * scale,
                share=1.667,
                interval=(-0.0008 * scale, -0.0002 * scale),
                extrapolated=False,
                summary="smaller steps end sooner",
            ),
            Cause(
                cause="kernel", gap=0.0002 * scale, share=-0.667, interval=None, extrapolated=False, summary="attention"
            ),
        ),
        unexplained=Unexplained(gap=0.0, share=0.0),
    )


def pair() -> Diagnosis:
    """The realistic pair: a winner, all four causes, fairness, recommendations, kernels, problems."""
    return Diagnosis(
        schema=SCHEMA,
        runs=(
            run("run-A", "vllm", "0.33.0", output_throughput=5919.2, mean_ttft=0.412, mean_tpot=0.0111, p99_tpot=0.031),
            run("run-B", "sglang", "0.5.23", output_throughput=3778.2, mean_ttft=1.921, mean_tpot=0.0108),
        ),
        verdict=Verdict(
            status="winner",
            winner="a",
            text=(
                "run-B (SGLang 0.5.23) serves 3,778 tokens/s where run-A (vLLM 0.33.0) serves 5,919: 36.2% less "
                "(95%: 35.4 to 37.0; 3 repeats each)."
            ),
            reasons=("70% of the gap is batching; 19% is scheduling; 11% is kernel.",),
        ),
        gaps=(latency_gap(), throughput_gap(), latency_gap("p99_ttft", 130.0)),
        fairness=(
            FairnessRule(rule="same_requests", status="pass", severity="block", detail="3,000 requests, equal lengths"),
            FairnessRule(
                rule="warm_up",
                status="fail",
                severity="warn",
                detail="run-B's log shows no warm-up of 8 requests before the measured window",
                evidence=(Evidence(name="warm-up requests", a=8, b=0, unit="", source="server.log"),),
                fix="send 8 requests before measuring",
            ),
            FairnessRule(
                rule="same_clocks", status="unknown", severity="warn", detail="no GPU counters in run-B", fix="record"
            ),
        ),
        recommendations=(
            Recommendation(
                run="run-B",
                knob="max_num_seqs",
                flag="--max-running-requests",
                current="40",
                to="128",
                predicted={"output_throughput": Prediction(change=0.39, interval=(0.36, 0.41))},
                why="requests waited in 94% of the steps",
                check="run the same load again and compare sequences per step",
            ),
        ),
        problems=(
            DocumentProblem(run="run-A", file="bench.json", severity="info", detail="read as vllm bench serve"),
            DocumentProblem(
                run="run-B",
                file="trace/decode.pt.trace.json.gz",
                severity="warning",
                detail="3 launches without a kernel; they are left out",
                place="event 18,221",
                count=3,
            ),
            DocumentProblem(
                run="run-B", file="metrics/7.txt", severity="error", detail="the file ends early", place="byte 4096"
            ),
        ),
        kernels=(
            KernelRow(category="attention", name=None, a_seconds=0.00188, b_seconds=0.00301, a_calls=64, b_calls=64),
            KernelRow(
                category="attention",
                name="void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(Params)",
                a_seconds=0.00188,
                b_seconds=None,
                a_calls=64,
                b_calls=None,
            ),
            KernelRow(
                category="attention",
                name="BatchDecodeWithPagedKVCacheKernel<128, 2>",
                a_seconds=None,
                b_seconds=0.00301,
                a_calls=None,
                b_calls=64,
            ),
            KernelRow(category="gemm", name=None, a_seconds=0.0071, b_seconds=0.0069, a_calls=256, b_calls=256),
            KernelRow(
                category="gemm",
                name="nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT",
                a_seconds=0.0071,
                b_seconds=0.0069,
                a_calls=256,
                b_calls=256,
            ),
            KernelRow(category="norm", name=None, a_seconds=0.00031, b_seconds=0.00029, a_calls=129, b_calls=129),
        ),
        roles=(
            RoleRow(
                role="attention",
                a_seconds=0.00188,
                b_seconds=0.00301,
                a_calls=64,
                b_calls=64,
                a_layer=0.0000522,
                b_layer=0.0000836,
                a_roofline=0.61,
                b_roofline=0.38,
            ),
            RoleRow(role="sampling", a_seconds=0.0001, b_seconds=None, a_calls=2),
        ),
        missing=("run-B: no GPU counters; they would have told whether the clocks were equal",),
        method=(
            "Gaps are B - A. Throughput is explained in seconds per output token.",
            "profiler diagnose runs/run-A runs/run-B",
        ),
        timelines=step_pairs.pairs(),
        moments=step_pairs.moments(),
        summary=step_pairs.summary(),
    )


def null_pair() -> Diagnosis:
    """The same engine twice: every gap is zero and no winner is named."""
    same = run("run-A", "vllm", "0.33.0", output_throughput=5919.2)
    zero = Gap(
        metric="output_throughput",
        unit="tokens/s",
        higher_is_better=True,
        a=5919.2,
        b=5919.2,
        gap=0.0,
        relative=0.0,
        interval=(-41.0, 41.0),
        winner=None,
        causes=(),
        unexplained=Unexplained(gap=0.0, share=None),
        seconds_per_output_token=Additive(a=0.00016894, b=0.00016894, gap=0.0, factor=0.0),
    )
    return Diagnosis(
        schema=SCHEMA,
        runs=(same, same),
        verdict=Verdict(status="no difference", winner=None, text="No difference shown."),
        gaps=(zero,),
        fairness=(),
        recommendations=(),
        problems=(),
    )


def traces_only() -> Diagnosis:
    """Two traces and no benchmark: nothing to claim, kernels to compare."""
    engine = EngineRef(name=None, version=None, source="")
    runs = tuple(RunSummary(name=name, path=name, engine=engine, metrics={}) for name in ("a.json", "b.json"))
    return Diagnosis(
        schema=SCHEMA,
        runs=runs,
        verdict=Verdict(
            status="insufficient evidence",
            winner=None,
            text="Without a benchmark result no throughput can be compared.",
        ),
        gaps=(),
        fairness=(),
        recommendations=(),
        problems=(),
        kernels=pair().kernels,
        missing=("a.json: no benchmark result", "b.json: no benchmark result"),
    )


def empty() -> Diagnosis:
    """Every list empty."""
    return Diagnosis(
        schema=SCHEMA,
        runs=(),
        verdict=Verdict(status="insufficient evidence", winner=None, text=""),
        gaps=(),
        fairness=(),
        recommendations=(),
        problems=(),
    )


def hostile(text: str = HOSTILE) -> Diagnosis:
    """``text`` in every field that takes any string."""
    evidence = (Evidence(name=text, a=text, b=1.0, unit=text, source=text),)
    part = Part(name=text, gap=-1.0, evidence=evidence)
    cause = Cause(
        cause="kernel",
        gap=-1.0,
        share=None,
        interval=None,
        extrapolated=True,
        summary=text,
        evidence=evidence,
        parts=(part,),
    )
    gap = Gap(
        metric=text,
        unit=text,
        higher_is_better=True,
        a=2.0,
        b=1.0,
        gap=-1.0,
        relative=-0.5,
        interval=None,
        winner="a",
        causes=(cause,),
        unexplained=Unexplained(gap=0.0, share=None, summary=text, parts=(part,)),
    )
    summary = RunSummary(
        name=text,
        path=text,
        engine=EngineRef(name=text, version=text, source=text),
        metrics={text: 1.0},
        facts={text: text},
        simulated=True,
    )
    return Diagnosis(
        schema=text,
        runs=(summary, summary),
        verdict=Verdict(status="winner", winner="a", text=text, reasons=(text,)),
        gaps=(gap,),
        fairness=(FairnessRule(rule=text, status="fail", severity="block", detail=text, evidence=evidence, fix=text),),
        recommendations=(
            Recommendation(
                run=text,
                knob=text,
                flag=text,
                current=text,
                to=text,
                predicted={text: Prediction(change=0.1, interval=(0.0, 0.2))},
                why=text,
                check=text,
            ),
        ),
        problems=(DocumentProblem(run=text, file=text, severity=text, detail=text, place=text, count=2),),
        kernels=(
            KernelRow(category=text, name=None, a_seconds=1.0, b_seconds=None, a_calls=1.0, b_calls=None),
            KernelRow(category=text, name=text, a_seconds=1.0, b_seconds=None, a_calls=1.0, b_calls=None),
        ),
        missing=(text,),
        method=(text,),
        timelines=step_pairs.pairs(text),
        moments=step_pairs.moments(text),
        summary=step_pairs.summary(text),
    )


def launched(
    kind: LaunchedBy, name: str, seconds: float, calls: int | None, host: float | None, names: int = 1
) -> InspectedOperator:
    return InspectedOperator(kind=kind, name=name, seconds=seconds, calls=calls, host_seconds=host, names=names)


def inspection(text: str | None = None) -> Inspection:
    """What is in a run; with ``text``, in every field that takes any string."""
    problem = DocumentProblem(
        run=text or "run-B",
        file=text or "metrics/7.txt",
        severity=text or "error",
        detail=text or "the file ends early",
        place=text or "byte 4096",
    )
    return Inspection(
        schema="profiler.inspection/1",
        run=text or "run-B",
        files=(
            InspectedFile(
                path=text or "trace/decode.pt.trace.json.gz", format=text or "torch trace", bytes=18_221_000, read=True
            ),
            InspectedFile(path="metrics/6.txt", format="prometheus", bytes=40_960, read=True),
            InspectedFile(path="metrics/7.txt", format="prometheus", bytes=4096, read=False, problems=(problem,)),
        ),
        engine=EngineRef(name=text or "sglang", version=text or "0.5.23", source=text or "server.log:12"),
        facts={text or "model": text or "Qwen3-32B", "gpu": "NVIDIA H200"},
        requests=3000,
        steps=812,
        step_sources=(
            InspectedSteps(
                source=text or "trace/decode.pt.trace.json.gz",
                steps=812,
                prefill=40,
                decode=700,
                mixed=72,
                mean_sequences=38.4,
                mean_seconds=0.0108,
                inferred=True,
            ),
        ),
        devices=(
            InspectedDevice(
                device=text or "cuda:0",
                trace=text or "trace/decode.pt.trace.json.gz",
                name=text or "NVIDIA H200",
                kernels=412_000,
                kernel_seconds=7.1,
                busy_seconds=7.0,
                window_seconds=8.0,
                categories={text or "gemm": 4.0, "attention": 3.0},
                idle={text or "between steps": 0.9, "launch": 0.1},
                roles={"attention": 3.0, text or "mlp": 4.0},
                calls={text or "gemm": 180_000, "attention": 29_232},
                role_calls={"attention": 29_232, text or "mlp": 118_000},
                operators=(
                    launched("operator", text or "aten::mm", 2.4, 36_000, 0.9),
                    launched("operator", "sgl_kernel::silu_and_mul", 0.8, 29_232, 0.2),
                    launched("others", "", 0.3, 58_000, 0.4, 21),
                    launched("graph", text or "cudaGraphLaunch", 3.2, 700, 0.1),
                    launched("outside", "", 0.2, 9_000, 0.1),
                    launched("not known", "", 0.1, None, None),
                ),
                layers=36,
                unclassified_share=0.012,
            ),
        ),
        unclassified_share=0.012,
        metrics={text or "output_throughput": 3778.2, "mean_ttft": 1.921},
        problems=(problem,),
        components=(
            InspectedComponent(
                source=text or "router.prom",
                component="gateway",
                title=text or "a model gateway (router)",
                values={text or "running_requests": 12.0, "hit_rate": 0.25, "ttft_seconds": 0.5},
            ),
        ),
        totals=(
            InspectedTotals(
                source=text or "kernels.csv",
                tool=text or "nsys stats cuda_gpu_kern_sum",
                what=text or "kernels",
                names=214,
                calls=412_000,
                seconds=7.1,
                categories={text or "gemm": 4.1, "attention": 3.0},
                largest={text or "nvjet_tst_192x192": 4.0},
                unclassified_share=0.0,
            ),
        ),
    )
