"""What TraceLens says of traces, as tab-separated lines: python tests/peers/tracelens_answers.py COMMIT TRACE... .

Needs AMD's TraceLens at that commit in the interpreter that runs it: pip install
git+https://github.com/AMD-AGI/TraceLens@COMMIT. Times are microseconds; what it raised instead of an answer stands by
its name.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

COLLECTIVE = ("comm_latency", "Full msg size (MB)", "algo bw (GB/s)", "bus bw (GB/s)")


def answers(path: Path) -> dict[str, str]:
    """Its GPU timeline of all device events, and its figures of each collective that one rank alone tells."""
    from TraceLens.NcclAnalyser.nccl_analyser import NcclAnalyser
    from TraceLens.TreePerf.gpu_event_analyser import PytorchGPUEventAnalyser

    text = gzip.decompress(path.read_bytes())
    events = [event | {"UID": i} for i, event in enumerate(json.loads(text)["traceEvents"])]
    found: dict[str, str] = {}
    try:
        found |= {key: repr(float(value)) for key, value in PytorchGPUEventAnalyser(events).compute_metrics().items()}
    except Exception as error:  # noqa: BLE001
        found["gpu timeline"] = type(error).__name__
    collectives: list[dict[str, Any]] = []
    # Some versions open plain files only; most fail where nothing is to be found.
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Exception):
        plain = Path(folder) / "trace.json"
        plain.write_bytes(text)
        collectives = NcclAnalyser([str(plain)], 1).build_df_nccl_implicit_sync_cat().to_dict("records")
    for i, row in enumerate(collectives):
        for key in COLLECTIVE:
            if row[key] is not None and math.isfinite(row[key]):
                found[f"collective {i}: {key}"] = repr(float(row[key]))
    return found


def lines(commit: str, paths: list[str]) -> str:
    """One a quantity: trace, quantity, value, commit."""
    rows = []
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        for path in map(Path, paths):
            rows += [f"{path.name}\t{quantity}\t{value}\t{commit}\n" for quantity, value in answers(path).items()]
    return "".join(rows)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.stdout.write(lines(sys.argv[1], sys.argv[2:]))
