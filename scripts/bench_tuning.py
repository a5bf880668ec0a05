"""Tunes networks of real size on a GPU: `trtsmith tune` beside `convert --precision fp16`.

    python3 scripts/bench_tuning.py --bundle DIR --network resnet50   # writes benchmarks/<gpu>/tuning.json

Networks are those of scripts/realnetworks/networks.py and of models/, exported on the spot, side by side. Several are
tuned at once, with their own inputs, and time their engines one after another. Those of QUANTIZED choose from int8 and fp8,
too, if nvidia-modelopt is there. Times are of CUDA graphs, errors against PyTorch in float32 on the CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.run_record import Record, add_resume, add_seconds, gpu_parser, gpu_record  # noqa: E402

QUANTIZED = ("resnet50", "vit_base, batch 8")

EXPORT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
import torch
from models.export import MODELS, export_model
from realnetworks.networks import export, made, outputs_of, save
torch.set_num_threads(2)
name, folder = sys.argv[1], Path(sys.argv[2])
if name in MODELS:
    exported = export_model(name, folder, batch=1)
    exported.model.rename(folder / "model.onnx")
    exported.inputs.rename(folder / "inputs.npz")
    exported.expected.rename(folder / "expected.npz")
else:
    module, inputs = made(name)
    with torch.no_grad():
        found = outputs_of(module(*inputs))
    graph = export(module, inputs, folder / "model.onnx")
    save(folder / "inputs.npz", graph.input, inputs)
    save(folder / "expected.npz", graph.output, found)
"""
"""In a process of its own: PyTorch keeps what it exported."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = gpu_parser(__doc__)
    add_seconds(parser, 500.0)
    add_resume(parser)
    parser.add_argument("--network", nargs="+", help="these only")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each search (%(default)g)")
    parser.add_argument("--at-once", type=int, default=4, help="searches side by side (%(default)d)")
    arguments = parser.parse_args(argv)
    end = time.monotonic() + arguments.seconds
    record = gpu_record(arguments, "tuning.json", job_of=lambda row: str(row["network"]))
    from models import MODELS  # PyTorch may be in the bundle
    from realnetworks.networks import NETWORKS, PLANTED

    record.order = names = arguments.network or list(NETWORKS)
    if unknown := {*names} - {*NETWORKS, *MODELS, PLANTED}:
        parser.error(f"no such networks: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="bench-tuning-") as folder:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            exports = {name: pool.submit(_exported, Path(folder), name) for name in record.left}
            wait(exports.values())
        with ThreadPoolExecutor(arguments.at_once) as pool:
            searches = [
                pool.submit(_add, record, name, export.result(), arguments.minutes, end)
                for name, export in exports.items()
            ]
        for one in searches:
            one.result()
    return 1 if any("died" in row for row in record.rows) or len(record.rows) < len(names) else 0


def _add(record: Record, name: str, place: Path | str, minutes: float, end: float) -> None:
    """Tunes a network, if there is time for it."""
    if time.monotonic() + 60 * minutes > end:
        return
    row = {"network": name, **({"died": place} if isinstance(place, str) else _tuned(place, name, minutes))}
    record.add(name, row)
    print(_line(row), flush=True)


def _exported(folder: Path, name: str) -> Path | str:
    """The folder of the network's file and inputs, or why there is none."""
    place = folder / "".join(c if c.isalnum() else "_" for c in name)
    place.mkdir()
    words = [sys.executable, "-c", EXPORT, name, str(place), str(ROOT), str(ROOT / "scripts")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return place if done.returncode == 0 else done.stderr.strip()[-300:]


def _tuned(place: Path, name: str, minutes: float) -> dict[str, Any]:
    found = place / "tuned.json"
    words = [
        sys.executable,
        "-m",
        "trtsmith",
        "tune",
        "model.onnx",
        "-o",
        "model.plan",
        "--inputs",
        "inputs.npz",
    ]
    words += ["--expected", "expected.npz", "--minutes", str(minutes), "--json", found.name, "-q"]
    if name in QUANTIZED:
        words += ["--samples", "inputs.npz"]
    with np.load(place / "inputs.npz") as inputs:  # those of models/ have a dynamic batch
        for key, array in inputs.items():
            words += ["--shapes", f"{key}={'x'.join(map(str, array.shape))}"]
    if "beyond float16" in name:
        words += ["--max-error", "0.01"]
    began = time.monotonic()
    done = subprocess.run(
        words,
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": _path()},
    )
    if done.returncode:
        return {"died": f"exit code {done.returncode}: {done.stderr.strip()[-500:]}"}
    document = json.loads(found.read_text(encoding="utf-8"))
    document["whole_s"] = round(time.monotonic() - began, 1)
    return {
        name: document[name]
        for name in ("best", "default", "trials", "bounds", "recipe", "seconds", "whole_s")
    }


def _path() -> str:
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def _line(row: dict[str, Any]) -> str:
    if "died" in row:
        return f"{row['network']}: {row['died']}"
    best, default = row["best"], row["default"]
    than = (
        ""
        if default is None
        else f", {best['ms'] / default['ms']:.3f} of {default['ms']:.4g} ms / {default['error']:.1e}"
    )
    return (
        f"{row['network']}: {best['ms']:.4g} ms / {best['error']:.1e}{than}; {len(row['trials'])} engines, "
        f"{row['seconds']:.0f} s; {best['flags'][:150]}"
    )


if __name__ == "__main__":
    sys.exit(main())
