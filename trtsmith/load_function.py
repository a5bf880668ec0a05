"""Defines the public function `load`, which first converts a given model; the cache of `batch` keeps its engine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trtsmith.batch_function import batch
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.kinds import Progress, StrPath, path_of, ranges_of
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.engine.runtime import engine_module
from trtsmith.converter.engine.runtime.engine_module import ConvertedEngine, Engine

_MODELS = (".onnx", ".pt2")


def load(
    engine: StrPath | ConvertedEngine,
    *,
    plugins: Sequence[StrPath] = (),
    flavour: str = "auto",
    runtime_cache: StrPath | None = None,
    cuda_graph: bool = False,
    device: int = 0,
    options: Mapping[str, Any] | None = None,
    cache: StrPath | None = None,
    progress: Progress | None = None,
) -> Engine:
    """An engine as a callable, on torch tensors or numpy arrays: y = engine(x). numpy arrays need no PyTorch.

    engine:  its file, with the manifest beside it; or what `convert` returned, also without a file; or a model, .onnx or
        .pt2: its engine is taken from the cache if the same model was converted before with the same options, TensorRT,
        GPU and trtsmith (docs/reference/cache.md), and else built.
    plugins: libraries that no manifest names. They run code of their own.
    flavour: "tensorrt", "tensorrt_rtx", or "auto": that of the manifest.
    runtime_cache: TensorRT-RTX: a file for the kernels that it compiles, or a folder for one file for each engine.
    cuda_graph: whether the engine runs as a CUDA graph, which is captured for each set of addresses.
    device:  the number of the GPU.
    options: for a model, those of `convert`, as far as a zoo file has them: {"shapes": {"x": (1, 4)}, "precision": "fp16"}.
    cache:   for a model, the folder of the cache; None: the user's.
    progress: for a model, a function that gets a line when it is converted.

    Raises UsageError: no GPU, no TensorRT, no cuda-core, an engine of another TensorRT or GPU, libraries that are missing or
    others than those that the manifest is about. ConversionError, for a model without an engine.
    """
    how: dict[str, Any] = {
        "runtime_cache": path_of(runtime_cache),
        "cuda_graph": cuda_graph,
        "device": device,
    }
    libraries = [os.fspath(path) for path in plugins]
    if not isinstance(engine, (str, os.PathLike)) or Path(engine).suffix not in _MODELS:
        return engine_module.load(engine, plugins=libraries, flavour=flavour, **how)
    asked = {"flavour": flavour, "plugins": [os.path.abspath(path) for path in libraries], **(options or {})}
    with ScratchFolder("load") as folder:
        zoo = Path(folder, "zoo.toml")
        zoo.write_text(_zoo(Path(os.path.abspath(engine)), asked), encoding="utf-8")
        done = batch(zoo, Path(folder, "results"), jobs=1, cache=cache, progress=progress)
        for record in done.records():
            if record.problems:
                raise ConversionError(record.problems)
            if done.passed:
                return engine_module.load(done.folder / record.name / "model.plan", **how)
            what = f"the engine is not used: {record.status.value}"
            fix = "`trtsmith locate` finds the node; or options={'no_verify': True} to compare nothing"
            raise ConversionError(what, str(engine), "outputs that agree with the model's", fix)
    raise UsageError("the conversion was ended", str(engine), "an engine", "load it again")


def _zoo(model: Path, options: Mapping[str, Any]) -> str:
    """A zoo of one model: values of JSON are values of TOML."""
    lines = ["[[model]]", f"path = {_text(str(model))}", 'name = "model"']
    for name, value in options.items():
        if name in ("shapes", "values"):
            value = ranges_of(value, *(("x", "{}") if name == "shapes" else (",", "[{}]")))
        if value is not None and value != "" and value != []:
            lines.append(f"{name.replace('_', '-')} = {_text(value)}")
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=os.fspath)
    except TypeError as error:
        expected = "texts, numbers, paths, and lists of them"
        fix = "name a file in the place of arrays; or `convert`, and load what it returns"
        raise UsageError(
            f"an option cannot be written to a zoo: {error}", "options", expected, fix
        ) from error
