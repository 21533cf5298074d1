"""KServe's Python server. Its prediction time is that of the call: of a streamed answer it is no token's time."""

from __future__ import annotations

from typing import Final

from profiler.model.extension import Answer, Component

COMPONENT: Final = Component(
    name="kserve",
    title="a KServe server",
    prefixes=("request_preprocess_seconds", "request_predict_seconds", "request_postprocess_seconds",
              "request_explain_seconds"),
    answers=(
        Answer("requests", "request_predict_seconds_count"),
        Answer("e2e_seconds", "request_predict_seconds_sum", per="request_predict_seconds_count"),
    ),
)  # fmt: skip
