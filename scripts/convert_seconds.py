"""Times `trtsmith convert` beside TensorRT's own import, on an idle machine, and writes benchmarks/convert_seconds.json.

    PYTHON scripts/realnetworks/networks.py FOLDER     # exports the networks
    python scripts/convert_seconds.py FOLDER
    python scripts/convert_seconds.py FOLDER --only resnet50  # prints a row, and writes nothing

Each row is of one run: TensorRT-RTX's parser and builder in a process, the conversion in float32, and in float16. The
conversions compare their outputs with PyTorch's. All build for sm86, without a GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from freshness.record_rows import BENCHMARKS  # noqa: E402
from harness.names_met import names_met, together  # noqa: E402
from harness.run_record import script_parser, write_record  # noqa: E402
from tests.processes import checkout_environment  # noqa: E402

RECORD = BENCHMARKS / "convert_seconds.json"

OWN_IMPORT = """
import sys
import tensorrt_rtx as trt
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(0)
if not trt.OnnxParser(network, logger).parse_from_file(sys.argv[1]):
    sys.exit("TensorRT does not import it")
config = builder.create_builder_config()
config.num_compute_capabilities = 1
config.set_compute_capability(trt.ComputeCapability.SM86, 0)
with open(sys.argv[2], "wb") as file:
    file.write(builder.build_serialized_network(network, config))
"""

FLAGS = {"float32": (), "float16": ("--precision", "fp16")}


def main(argv: Sequence[str] | None = None) -> int:
    parser = script_parser(__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what networks.py wrote")
    parser.add_argument("--only", metavar="NAME", help="one network")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for model in sorted(options.folder.glob("*.onnx")):
        if options.only in (None, model.stem):
            rows.append(row(model))
            print(json.dumps(rows[-1]), flush=True)
    if options.only is None:
        packages = {name: version(name) for name in ("onnxruntime", "tensorrt-rtx-cu13")}
        write_record(RECORD, {"packages": packages, "rows": rows}, "RECORD")
    return 0


def row(model: Path) -> dict[str, Any]:
    """Seconds of the import and of each conversion, by precision, with exit codes and the names of the rules that ran."""
    found: dict[str, Any] = {"network": model.stem}
    inputs, expected = (model.with_name(f"{model.stem}{suffix}.npz") for suffix in ("", ".expected"))
    with tempfile.TemporaryDirectory() as folder:
        found["import"], _ = timed([sys.executable, "-c", OWN_IMPORT, str(model), f"{folder}/own.plan"])
        for name, flags in FLAGS.items():
            compared = ("--inputs", str(inputs), "--expected", str(expected), "--target", "sm86", "-q")
            report = Path(folder, f"{name}.json")
            words = ("convert", str(model), "-o", f"{folder}/{name}.plan", *compared, *flags)
            found[name], code = timed([sys.executable, "-m", "trtsmith", *words, "--report", str(report)])
            found[f"{name}_exit_code"] = code
            found["met"] = together(
                found.get("met", {}), names_met(json.loads(report.read_text(encoding="utf-8")))
            )
    return found


def timed(words: Sequence[str]) -> tuple[float, int]:
    """Runs a program; its seconds and exit code."""
    since = time.perf_counter()
    done = subprocess.run(words, env=checkout_environment(), capture_output=True, check=False)
    return round(time.perf_counter() - since, 1), done.returncode


if __name__ == "__main__":
    sys.exit(main())
