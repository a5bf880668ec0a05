"""Measures an engine of one plugin between TensorRT's own layers, and its kernel alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from gpucheck.engines import check_built
from gpucheck.plugin_trials import Trial, model_of
from networkbench.timing import medians
from networkbench.ways import profiled
from onnxcoverage.builder import GPU_TARGET, Sizes, build_engine
from trtsmith.converter.bench.layers import nodes_of, parse_inspector, profile
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.plugin.bench.kernel_machine import open_bench
from trtsmith.converter.plugin.bench.kernel_torch import TorchSubject
from trtsmith.converter.plugin.cases import SEED
from trtsmith.converter.plugin.contract import GpuCase
from trtsmith.importers.opdef import Case, OpDef
from trtsmith.importers.registry import by_name

COUNT = 200


def work(job: str, folder: Path) -> dict[str, Any]:
    """`job`: operator:case:dtype. Microseconds: `engine_us` of the whole as a CUDA graph, `kernel_us` of the kernel alone,
    `layers_us` by layer."""
    name, case_name, dtype = job.split(":")
    op, case, generated = _case(name, case_name)
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    trial = _trial(op, case, generated, dtype)
    model = model_of([trial], dynamic=False)
    sizes = {name: Sizes((array.shape,) * 3) for name, array in trial.feeds.items()}
    path = folder / "one.onnx"
    onnx.save(model, path)
    plan = check_built(build_engine(path, sizes, plugins=True, target=GPU_TARGET, layer_details=True))
    runner = Runner.open(plan, flavour="tensorrt_rtx")
    session, plain = (runner.session(stream=stream, cuda_graph=graph) for graph in (True, False))
    given = session.upload(trial.feeds)
    session.infer(given)
    plain.infer(given)
    engine = medians({"engine": session.enqueue})["engine"]["median_ms"] * 1e3
    layers = profile(profiled(plain), parse_inspector(runner.inspect()), nodes_of(model))
    with open_bench(plugin_library(), 0.0) as bench, torch.cuda.stream(bench.stream):
        subject = TorchSubject(
            bench, op, case, generated, dtype, 1
        )  # as the engine: the same inputs again and again
        kernel = subject.ours(COUNT).times.median
        subject.close()
    return {
        "engine_us": round(engine, 2),
        "kernel_us": round(kernel, 2),
        "layers_us": {layer["layer"]: round(layer["ms"] * 1e3, 2) for layer in layers["layers"]},
    }


@cache
def _case(name: str, case_name: str) -> tuple[OpDef, Case, dict[str, np.ndarray]]:
    op = by_name()[name]
    case = next(case for case in op.benchmarks if case.name == case_name)
    return op, case, case.inputs(np.random.default_rng(SEED))


def _trial(op: OpDef, case: Case, generated: dict[str, np.ndarray], dtype: str) -> Trial:
    """As the operators' trials, but for the right outputs: these take minutes at such sizes."""
    from gpucheck.plugin_trials import feeds_of
    from trtsmith.converter.plugin.host.plugin_values import array_dtype

    types = op.dtypes(dtype)
    present = tuple(port.name for port in op.inputs if port.name in generated)
    arrays = {
        p.name: generated[p.name].astype(array_dtype(types[p.type])) for p in op.inputs if p.name in present
    }
    made = GpuCase(op.name, case.name, case.fields, tuple(arrays.values()), (), ())
    return Trial(op, types, case, made, present, feeds_of(op, types, arrays))
