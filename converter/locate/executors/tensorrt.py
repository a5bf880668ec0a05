"""Executes with TensorRT: builds an engine for each set of outputs, and runs it on this machine's GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.convert.foreign_nodes import ForeignPlugins
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.engine.builder.build_request import BuildRequest, BuildResult, Profile
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.freeze import shape_inputs
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.importers.opdef import Arrays

Build = Callable[[BuildRequest], BuildResult]
RunEngine = Callable[[RunRequest, Sequence[Arrays]], RunResult]


@dataclass(frozen=True)
class OnTensorRT:
    """An executor that builds and runs engines, both in child processes.

    build, run: trtsmith.converter.engine.builder.build.build and trtsmith.converter.engine.runtime.run_in_child.run_engine.
    libraries:  plugin libraries that the engines need.
    foreign:    the plugins that are not ours.
    shapes:     profile of the model's dynamic inputs; others are built for the sizes that they are fed with.
    timeout_s:  for each build and each run.
    has_gpu:    whether this machine can run engines.
    """

    build: Build
    run: RunEngine
    libraries: tuple[Path, ...] = ()
    foreign: ForeignPlugins = field(default_factory=ForeignPlugins)
    shapes: Mapping[str, ShapeRange] = field(default_factory=dict)
    flavour: str = "auto"
    timeout_s: float | None = None
    float16_sums: bool = False
    has_gpu: bool = True

    name = "TensorRT"
    types = frozenset({"float32", "float16", "bfloat16", "int8", "int32", "int64", "bool"})
    tf32 = True
    fuses = True

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        """ConversionError if TensorRT cannot build the model; UsageError where the engine cannot be run."""
        if not self.has_gpu:  # said before a build, which may take minutes
            raise UsageError(
                "there is no NVIDIA GPU here to run engines on; the rewritten graph gives what the original gives",
                "this machine",
                "a GPU, for the search in engines",
                "run it where the GPU is; or without one, for a precision: --on emulation --precision fp16",
            )
        planned = plan(Rewritten(infer_shapes(model), (), ()), self.foreign)
        with ScratchFolder("locate") as name:
            graph, engine = Path(name) / "model.onnx", Path(name) / "model.plan"
            save_model(model, graph)
            profile = self._profile(model, feeds)
            self.build(
                BuildRequest(
                    onnx_path=graph,
                    engine_path=engine,
                    plugin_libraries=self.libraries,
                    plugins=(*planned.plugins, *planned.foreign),
                    profiles=(profile,) if profile else (),
                    flavour=self.flavour,
                    timeout_s=self.timeout_s,
                )
            )
            request = RunRequest(engine, self.libraries, self.flavour, timeout_s=self.timeout_s)
            return dict(self.run(request, [feeds]).outputs[0])

    def _profile(self, model: Model, feeds: Arrays) -> dict[str, Profile]:
        """Sizes of dynamic inputs, and values of the inputs that decide shapes."""
        deciding = shape_inputs(model.proto)
        profile = {}
        for value in model.proto.graph.input:
            if value.name not in feeds:
                continue
            array = feeds[value.name]
            if value.name in deciding:
                numbers = tuple(int(n) for n in array.reshape(-1))
                profile[value.name] = Profile(numbers, numbers, numbers, values=True)
            elif not all(d.HasField("dim_value") for d in value.type.tensor_type.shape.dim):
                sizes = self.shapes.get(value.name) or ShapeRange(array.shape, array.shape, array.shape)
                profile[value.name] = Profile(sizes.min, sizes.opt, sizes.max)
        return profile
