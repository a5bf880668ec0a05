"""Makes the ways in which a network runs in one precision: engines of TensorRT, and PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from gpucheck.engines import check_built
from models.ms_deform_attn import LevelTables, ms_deform_attn_grid_sample
from onnxcoverage.builder import GPU_TARGET, Sizes, build_engine
from trtsmith.converter.bench.layers import nodes_of, parse_inspector, profile
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.session import Session
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.rewrite import Rewritten

Tensors = Mapping[str, torch.Tensor]

DEVICE = "cuda"
TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

PROFILED, WARM = 20, 3
"""Inferences that are profiled by layer, and those before them."""


@dataclass
class Way:
    """One way to run the network.

    run: enqueues an inference on the current stream. outputs: those of the last one, by name. told: of the record.
    layers: a profile by layer, where there is one.
    """

    run: Callable[[], Any]
    outputs: Callable[[], Tensors]
    told: dict[str, Any] = field(default_factory=dict)
    layers: Callable[[], dict[str, Any]] | None = None


def multiply_as_tensorrt() -> None:
    """Makes PyTorch multiply float32 in TF32 where supported, and sum 16-bit products in float32."""
    matmul = torch.backends.cuda.matmul
    torch.backends.cudnn.allow_tf32 = matmul.allow_tf32 = True
    matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = False


def reduced(result: Rewritten, precision: str, kept: Mapping[str, str]) -> Rewritten:
    """The graph in a precision, as in `convert`. kept: nodes that stay in float32 at fp16, with reasons."""
    if precision == "fp32":
        return result
    decided = kept if precision == "fp16" else None
    return in_precision(result, PrecisionRequest(precision, decided=decided))


def engine_way(
    result: Rewritten, name: str, feeds: Mapping[str, np.ndarray], folder: Path, stream: torch.cuda.Stream
) -> Way:
    """An engine of the graph for exactly these shapes, replayed as a CUDA graph. Raises EngineError and TrtsmithError."""
    path = folder / f"{name}.trt.onnx"
    save_model(result.model, path)
    sizes = {key: Sizes((array.shape,) * 3) for key, array in feeds.items()}
    plan = check_built(build_engine(path, sizes, plugins=True, target=GPU_TARGET, layer_details=True))
    return plan_way(plan, result.model.proto, feeds, stream)


def plan_way(
    plan: bytes, graph: onnx.ModelProto | None, feeds: Mapping[str, np.ndarray], stream: torch.cuda.Stream
) -> Way:
    """An engine, replayed as a CUDA graph. graph: with the nodes behind its layers; None: unknown."""
    runner = Runner.open(plan, flavour="tensorrt_rtx")
    session = runner.session(stream=stream, cuda_graph=True)
    given = {
        spec.name: torch.from_numpy(feeds[spec.name]).to(DEVICE, _torch_type(spec.dtype))
        for spec in runner.info.inputs
    }
    found = session.infer(given)

    def layers() -> dict[str, Any]:
        plain = runner.session(stream=stream, cuda_graph=False)
        plain.infer(given)
        return profile(
            profiled(plain), parse_inspector(runner.inspect()), {} if graph is None else nodes_of(graph)
        )

    return Way(
        run=session.enqueue,
        outputs=lambda: {key: torch.utils.dlpack.from_dlpack(value) for key, value in found.items()},
        told={"engine_bytes": len(plan), "device_memory": runner.info.device_memory},
        layers=layers,
    )


def profiled(session: Session) -> list[dict[str, float]]:
    """Milliseconds by layer for each of PROFILED inferences of a warm session."""
    runs: list[dict[str, float]] = []

    def report(layer: str, milliseconds: float) -> None:
        runs[-1][layer] = runs[-1].get(layer, 0.0) + milliseconds

    with session.profiling(report):
        for _ in range(WARM + PROFILED):
            runs.append({})
            session.enqueue()
            session.synchronise()
    return runs[WARM:]


def _torch_type(dtype: Any) -> torch.dtype:
    found: torch.dtype = getattr(torch, np.dtype(dtype).name)
    return found


def torch_ways(
    module: torch.nn.Module, feeds: Mapping[str, np.ndarray], names: Sequence[str], precision: str
) -> dict[str, Callable[[], Way]]:
    """PyTorch in eager mode, compiled, and compiled with CUDA graphs; custom operators in PyTorch's own operators.

    Under autocast where the module does not run in the type by itself.
    """
    LevelTables.attend = _attend  # type: ignore[method-assign, assignment]
    dtype = TYPES[precision]
    tensors = [torch.from_numpy(array).to(DEVICE) for array in feeds.values()]
    plain = copy.deepcopy(module).to(DEVICE, dtype)
    given = [x.to(dtype) for x in tensors]
    cast = False
    try:
        with torch.inference_mode():
            plain(*given)
    except RuntimeError:
        plain, given, cast = copy.deepcopy(module).to(DEVICE), tensors, True

    def made(call: Callable[..., Any]) -> Way:
        last: list[Any] = [None]

        def run() -> None:
            with torch.inference_mode(), torch.autocast(DEVICE, dtype) if cast else nullcontext():
                last[0] = call(*given)

        def outputs() -> Tensors:
            found = last[0] if isinstance(last[0], tuple) else (last[0],)
            return {name: x.clone() for name, x in zip(names, found, strict=True)}

        for _ in range(3):  # compiles, and captures
            run()
        torch.cuda.synchronize()
        return Way(run, outputs, {"autocast": cast})

    return {
        "eager": lambda: made(plain),
        "compile": lambda: made(torch.compile(plain)),
        "compile, CUDA graphs": lambda: made(torch.compile(plain, mode="reduce-overhead")),
    }


def _attend(tables: Any, value: torch.Tensor, locations: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return ms_deform_attn_grid_sample(value, tables.level_shapes, locations, weights)
