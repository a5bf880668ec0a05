"""Builds trtsmith's engines, and runs them with their plugin libraries."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import util
from polygraphy.backend.base import BaseLoader, BaseRunner
from polygraphy.logger import G_LOGGER

from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.polygraphy_extension.polygraphy_log import problems_logged, progress, warn
from trtsmith.converter.polygraphy_extension.whole_models import (
    metadata_of,
    model_file,
    to_polygraphy,
    to_types,
)

if TYPE_CHECKING:
    from trtsmith.converter.base.options.kinds import FlavourName, PrecisionName

Shapes = Mapping[str, Sequence[Sequence[int]]]


@dataclass(frozen=True)
class BuiltEngine:
    """An engine, with its manifest and libraries beside it. folder: its temporary folder, or None."""

    path: Path
    folder: ScratchFolder | None = None

    def close(self) -> None:
        if self.folder is not None:
            self.folder.cleanup()


@dataclass(eq=False, repr=False)
class BuildTrtsmithEngine(BaseLoader):  # type: ignore[misc]  # Polygraphy has no types
    """Builds an engine of an ONNX model as `trtsmith convert` does: load, rewrite, plan, build, bundle.

    model:     a path, an onnx.ModelProto, or a callable that gives one of these.
    shapes:    of dynamic inputs, by name: (smallest, usual, largest). Of an integer input of a fixed shape, values.
    precision: "fp16", "bf16", "int8" or "fp8"; None: the types of the model.
    flavour:   "tensorrt", "tensorrt_rtx", or None: as `trtsmith convert` chooses.
    plugins:   paths of plugin libraries of the user's. They run code of their own.
    freeze:    inputs that become constants, as NAME=VALUE.
    ops, packages: definitions of operators from outside, and whether those of installed packages count.
    save:      the engine's file; None: one in a temporary folder.
    """

    model: Any
    shapes: Shapes | None = None
    precision: PrecisionName | None = None
    flavour: FlavourName | None = None
    plugins: Sequence[str] | None = None
    freeze: Sequence[str] | None = None
    ops: Sequence[str] | None = None
    packages: bool | None = None
    save: str | None = None

    @util.check_called_by("__call__")  # type: ignore[untyped-decorator]
    def call_impl(self) -> BuiltEngine:
        """Builds the engine without a comparison, which is the task of the runners."""
        import trtsmith

        folder = ScratchFolder("engine") if self.save is None else None
        engine = BuiltEngine(Path(folder.name) / "model.plan" if folder else Path(str(self.save)), folder)
        try:
            with problems_logged(), model_file(self.model) as path:
                G_LOGGER.start("Building engine with trtsmith")
                shapes, values = _shapes_and_values(path, self.shapes or {})
                done = trtsmith.convert(
                    path,
                    engine.path,
                    shapes=shapes,
                    values=values,
                    freeze=tuple(self.freeze or ()),
                    precision=self.precision or "",
                    flavour=self.flavour or "auto",
                    plugins=tuple(self.plugins or ()),
                    ops=tuple(self.ops or ()),
                    plugins_from_packages=self.packages is not False,
                    verify=None,
                    progress=progress,
                )
        except BaseException:
            engine.close()
            raise
        for sentence in done.warnings:
            warn(sentence)
        routes = ", ".join(f"{count} {route}" for route, count in done.plan.routes().items())
        G_LOGGER.finish(f"Finished building engine. Nodes: {routes or 'none'}")
        return engine


def _shapes_and_values(path: Path, given: Shapes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits Polygraphy's one option for inputs into their shapes and the values of shape tensors."""
    from trtsmith.converter.base.options.shapes import graph_inputs
    from trtsmith.converter.model.load import load_model

    fixed = {
        spec.name: spec.shape
        for spec in graph_inputs(load_model(path).proto)
        if None not in spec.shape and spec.dtype in ("int32", "int64")
    }
    values = {name: range_ for name, range_ in given.items() if name in fixed and fixed[name] not in range_}
    return {name: range_ for name, range_ in given.items() if name not in values}, values


class TrtsmithRunner(BaseRunner):  # type: ignore[misc]
    """Runs an engine of `trtsmith convert`, with the TensorRT and plugin libraries that its manifest names.

    Inputs and outputs have the types that they have in the model, whatever the engine computes in.
    """

    def __init__(
        self,
        engine: Any,
        plugins: Sequence[str] | None = None,
        flavour: str | None = None,
        name: str | None = None,
    ) -> None:
        """
        engine:  a path, or a callable that gives one, or a BuiltEngine.
        plugins: paths of plugin libraries besides those of the manifest. They run code of their own.
        flavour: "tensorrt", "tensorrt_rtx", or None: that of the manifest.
        """
        super().__init__(name=name, prefix="trtsmith-runner")
        self._engine = engine
        self._plugins = plugins
        self._flavour = flavour

    @util.check_called_by("activate")  # type: ignore[untyped-decorator]
    def activate_impl(self) -> None:
        with problems_logged():
            if callable(self._engine):
                _check_gpu()  # before minutes are spent on a build
            built, _ = util.invoke_if_callable(self._engine)
            engine = built if isinstance(built, BuiltEngine) else BuiltEngine(Path(built))
            try:
                self.runner, self.inputs = _opened(engine.path, self._plugins or (), self._flavour)
            except BaseException:
                engine.close()
                raise
            self.file = engine
            for sentence in self.runner.warnings:
                warn(sentence)

    @util.check_called_by("get_input_metadata")  # type: ignore[untyped-decorator]
    def get_input_metadata_impl(self) -> Any:
        return metadata_of(self.inputs)

    @util.check_called_by("infer")  # type: ignore[untyped-decorator]
    def infer_impl(self, feed_dict: Mapping[str, Any]) -> Any:
        """Returns outputs by name, in host memory; PyTorch tensors if the inputs are. The time includes copies."""
        feeds = to_types(feed_dict, self.inputs)
        with problems_logged():
            start = time.perf_counter()
            outputs = self.runner(feeds)
            self.inference_time = time.perf_counter() - start
        return to_polygraphy(outputs, feed_dict)

    @util.check_called_by("deactivate")  # type: ignore[untyped-decorator]
    def deactivate_impl(self) -> None:
        self.runner.close()
        self.file.close()
        del self.runner, self.inputs, self.file


def _opened(
    path: Path, plugins: Sequence[str], flavour: str | None
) -> tuple[Any, dict[str, tuple[str, tuple[int | None, ...]]]]:
    """Loads the engine on the GPU. Also returns its inputs' types in the model and their shapes, by name."""
    from trtsmith.converter.engine.builder.flavour import load_flavour
    from trtsmith.converter.engine.bundle.run_from_bundle import request_for
    from trtsmith.converter.engine.runtime.device import Device
    from trtsmith.converter.engine.runtime.runner import Runner
    from trtsmith.converter.engine.runtime.runtime_log import process_log

    request = request_for(path, [Path(library) for library in plugins], flavour or "auto")
    _check_gpu()
    loaded = load_flavour(request.flavour)
    runner = Runner.of_request(request, Device(0), loaded, process_log(loaded))
    types = {io.name: io.before for io in request.io_types}
    inputs = {
        spec.name: (
            types.get(spec.name, spec.dtype),
            tuple(None if size < 0 else size for size in spec.shape),
        )
        for spec in runner.info.inputs
    }
    return runner, inputs


def _check_gpu() -> None:
    """Raises UsageError without a GPU."""
    from trtsmith.converter.base.errors import UsageError
    from trtsmith.converter.engine.builder.gpu import find_gpu
    from trtsmith.converter.engine.runtime.device import no_gpu

    if find_gpu() is None:
        raise UsageError(no_gpu())
