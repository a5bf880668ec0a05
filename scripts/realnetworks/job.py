"""Makes a network in all its ways, and times them while no other job is timed: a job of scripts/bench_real_networks.py."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from gpucheck.engines import check_built
from gpucheck.metrics import relative_error
from networkbench.job import alone, short
from networkbench.timing import medians
from networkbench.ways import DEVICE, Way, plan_way
from onnxcoverage.builder import GPU_TARGET, Sizes, build_engine
from realnetworks.networks import export, made, outputs_of, save
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.precision import judge, policy
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.target import RTX

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")  # there are more jobs than cores

CONVERTED = {
    "fp32": (),
    "fp16": ("--precision", "fp16"),
    "bf16": ("--precision", "bf16"),
    "int8, fp16": ("--precision", "int8,fp16"),
    "fp8, fp16": ("--precision", "fp8,fp16"),
    "fp16 of half": (),
}
"""By way, what `trtsmith convert` is told beside the inputs. "fp16 of half" converts what the user exported in half.
Outputs are compared here, and not there: the engine is the same. 8 bits are calibrated on the inputs themselves, and need
nvidia-modelopt."""

CALIBRATED = ("int8, fp16", "fp8, fp16")

REWRITTEN = "fp16, written alone"
"""The graph as `trtsmith rewrite --precision fp16` writes it without inputs, built by TensorRT."""

REASONS = (policy.NORM, policy.SUM, policy.GROWS, policy.POWER, policy.ROOT, policy.QUOTIENT)

ISLANDS = {f"{REWRITTEN}, but for: {reason}": reason for reason in REASONS}
"""By way, the reason for which operators stay in float32 that is no reason in it: what it costs, and buys."""

OWN = {"import": "float32", "import half": "half"}
"""By way, the file that TensorRT imports and builds by itself."""

COMPILED = "compile half"

WAYS = (*OWN, COMPILED, *CONVERTED, REWRITTEN, *ISLANDS)

Arrays = Mapping[str, np.ndarray]


def work(
    job: str, folder: Path, ways: list[str], count: int, making_s: float, layers: bool
) -> dict[str, Any]:
    """Runs a job. job: the network. count: jobs made side by side; timing starts once all are made, or after making_s.

    layers: whether the slowest layers of engines are in the row.
    """
    began = time.monotonic()
    torch.set_num_threads(2)  # of the CPU
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    rows: dict[str, Any] = {}
    ready: dict[str, Way] = {}
    place = folder / "".join(c if c.isalnum() else "_" for c in job)
    place.mkdir()
    network = _Network(job, place, stream)
    try:
        network.write()
        for way in ways:
            since = time.monotonic()
            if since > began + making_s:
                rows[way] = {"unavailable": "no time was left to make it"}
                continue
            try:
                ready[way] = network.way(way, began + making_s - since)
            except Exception as error:  # a way that fails is a finding of its own
                lines = str(error).strip().splitlines() or [""]
                rows[way] = {"unavailable": f"{type(error).__name__}: {lines[0][:300]}"}
                traceback.print_exc()
            else:
                ready[way].told["made_s"] = round(time.monotonic() - since, 1)
    finally:
        (folder / f"{place.name}.made").touch()
    finished = time.monotonic()
    with alone(folder, count, "", began + making_s + 30):
        for way, figures in medians({way: it.run for way, it in ready.items()}).items():
            rows[way] = {**figures, **ready[way].told, "error": network.error(way, ready[way].outputs())}
            profile = ready[way].layers
            if layers and profile is not None:
                rows[way]["layers"] = short(profile())
    seconds = {"making": round(finished - began, 1)}
    return {"rows": rows, "seconds": seconds, "told": network.told}


class _Network:
    """A network's exports. told: the outcome of each, by file name."""

    def __init__(self, name: str, folder: Path, stream: torch.cuda.Stream) -> None:
        self.told: dict[str, str] = {}
        self._name, self._folder, self._stream = name, folder, stream
        self._right: tuple[np.ndarray, ...] = ()
        self._outputs: dict[str, list[str]] = {}

    def write(self) -> None:
        """Writes the exports, their inputs, and PyTorch's outputs in float32."""
        module, inputs = made(self._name)
        with torch.inference_mode():
            found = outputs_of(module.to(DEVICE)(*(x.to(DEVICE) for x in inputs)))
        self._right = tuple(x.float().cpu().numpy() for x in found)
        module.cpu()
        for kind in ("float32", "half"):
            try:
                if kind == "half":
                    module, inputs = module.half().to(DEVICE), _halved(inputs)
                graph = export(module, inputs, self._path(kind))
            except Exception as error:
                self.told[kind] = f"{type(error).__name__}: {str(error)[:200]}"
                traceback.print_exc()
                continue
            self._outputs[kind] = [value.name for value in graph.output]
            self.told[kind] = f"{len(graph.node)} nodes"
            save(self._folder / f"{kind}.npz", graph.input, inputs)

    def _path(self, kind: str) -> Path:
        return self._folder / f"{kind}.onnx"

    def way(self, way: str, limit_s: float) -> Way:
        if way == COMPILED:
            return self._compiled()
        kind = _kind_of(way)
        if kind not in self._outputs:
            raise RuntimeError(f"no export: {self.told[kind]}")
        feeds = dict(np.load(self._folder / f"{kind}.npz"))
        if way in CONVERTED:
            plan, told = self._convert(way, kind, limit_s)
        else:
            path = self._path(kind)
            if way not in OWN:
                path = self._folder / "rewritten.onnx"
                save_model(written(self._path(kind), way).model, path)
            plugins, sizes = way not in OWN, {key: Sizes((x.shape,) * 3) for key, x in feeds.items()}
            plan = check_built(
                build_engine(path, sizes, plugins=plugins, target=GPU_TARGET, layer_details=True)
            )
            told = {}
        done = plan_way(plan, None, feeds, self._stream)
        done.told.update(told)
        return done

    def _convert(self, way: str, kind: str, limit_s: float) -> tuple[bytes, dict[str, Any]]:
        plan = self._folder / f"{way.replace(' ', '_')}.plan"
        words = ["convert", str(self._path(kind)), "-o", str(plan), *CONVERTED[way], "-q", "--no-verify"]
        words += ["--inputs", str(self._folder / f"{kind}.npz")]
        if way in CALIBRATED:
            words += ["--calibration", str(self._folder / f"{kind}.npz")]
        done = subprocess.run(
            [sys.executable, "-m", "trtsmith", *words],
            capture_output=True,
            text=True,
            timeout=max(limit_s, 1),
            check=False,
        )
        said = [line for line in done.stdout.splitlines() if line.startswith(("precision", "sums"))]
        if not plan.exists():
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        return plan.read_bytes(), {"exit_code": done.returncode, "said": said}

    def _compiled(self) -> Way:
        module, inputs = made(self._name)
        module, given = module.half().to(DEVICE), _halved(inputs)
        call = torch.compile(module)
        last: list[Any] = [None]

        def run() -> None:
            last[0] = outputs_of(call(*given))

        with torch.inference_mode():
            for _ in range(4):
                run()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self._stream):
                run()
        held = last[0]
        # The graph reads the memory of weights and inputs, and does not hold it.
        return Way(graph.replay, partial(_by_number, held, module, given))

    def error(self, way: str, outputs: Mapping[Any, torch.Tensor]) -> float:
        """||y - x|| / ||x|| of the worst output."""
        names = list(outputs) if way == COMPILED else self._outputs[_kind_of(way)]
        return max(
            float(f"{relative_error(outputs[name].float().cpu().numpy(), right):.3g}")
            for name, right in zip(names, self._right, strict=True)
        )


def _by_number(held: Sequence[torch.Tensor], *_kept: Any) -> dict[str, torch.Tensor]:
    return {str(index): x for index, x in enumerate(held)}


def _kind_of(way: str) -> str:
    """The export from which an engine is made."""
    return OWN.get(way, "half" if way.endswith("of half") else "float32")


def written(path: Path, way: str) -> Rewritten:
    """The graph of REWRITTEN, or of one of ISLANDS, for the model in this file."""
    kept = {name: why for name, why in policy.SENSITIVE.items() if why != ISLANDS.get(way)}
    with patch.object(judge, "SENSITIVE", kept):
        return in_precision(rewrite(load_model(path), RTX), PrecisionRequest("fp16"))


def _halved(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(x.to(DEVICE).half() if x.is_floating_point() else x.to(DEVICE) for x in inputs)
