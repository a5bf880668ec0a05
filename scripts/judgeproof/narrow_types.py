"""Judges networks whose own float16 or bfloat16 cannot hold their values, and writes benchmarks/narrow_types.json.

    python3 scripts/judgeproof/narrow_engines.py y.json         # on a GPU: what engines give
    python scripts/judgeproof/narrow_types.py --engines y.json  # the verdicts, and how much of the outputs is equal

A network that is not held must not be called agreed, and one that is held must. Exit code 1 otherwise.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.run_record import script_parser, write_record  # noqa: E402
from judgeproof.narrow_networks import Narrow, cases  # noqa: E402
from trtsmith.converter.model.load import load_model  # noqa: E402
from trtsmith.converter.verify.baseline import Baseline, Original  # noqa: E402
from trtsmith.converter.verify.candidate_judge import judge  # noqa: E402
from trtsmith.converter.verify.candidates import rewritten_graph  # noqa: E402
from trtsmith.converter.verify.sets import InputSet  # noqa: E402
from trtsmith.converter.verify.verdict import AGREE  # noqa: E402

RECORD = ROOT / "benchmarks" / "narrow_types.json"


def main(argv: list[str] | None = None) -> int:
    parser = script_parser(__doc__)
    parser.add_argument("--engines", type=Path, metavar="FILE", required=True, help="outputs of engines")
    parser.add_argument("--output", type=Path, default=RECORD, help="the record (default %(default)s)")
    options = parser.parse_args(argv)
    known = json.loads(options.engines.read_text())
    rows = [row(*case, known["outputs"]) for case in cases()]
    wrong = [one["network"] for one in rows if (one["verdict"] == AGREE) != one["held"]]
    versions = {key: known[key] for key in ("gpu", "tensorrt")} | {"onnxruntime": version("onnxruntime")}
    write_record(options.output, {**versions, "rows": rows}, "--output")
    print(
        f"{len(rows)} networks, {sum(not one['held'] for one in rows)} of them not held; judged wrong: {wrong or 'none'}"
    )
    return int(bool(wrong))


def row(name: str, dtype: str, network: Narrow, outputs: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(network.model(dtype), path)
        model = load_model(path)
        baseline = Baseline(Original(model), [InputSet("", {"x": network.feed(dtype)})])
        verdict = judge(baseline, rewritten_graph(model))
    found = {"network": name, "held": network.held, "verdict": verdict.status, "reason": verdict.reason}
    found["advice"] = verdict.advice
    if outputs[name] is not None:
        wanted, given = baseline.plain[0]["y"].astype(np.float32).ravel(), np.array(outputs[name], np.float32)
        same = (wanted == given) | (np.isnan(wanted) & np.isnan(given))
        found["engine_equal"] = round(float(same.mean()), 3)
    return found


if __name__ == "__main__":
    sys.exit(main())
