"""Defines the public function `load`, which first converts a given model; the cache of `batch` keeps its engine."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtsmith.argument_types import checked_types
from trtsmith.argument_words import ArgumentWords
from trtsmith.arguments import logged
from trtsmith.batch_function import BatchOptions, ProgressLines, request_of
from trtsmith.convert_function import CONVERSION
from trtsmith.converter.base.errors import ConversionError, TrtsmithError, UsageError
from trtsmith.converter.base.options.declared import options_of, with_defaults
from trtsmith.converter.base.options.kinds import (
    Device,
    Paths,
    Progress,
    Settings,
    StrPath,
    gpu_number,
    path_of,
    paths_of,
    ranges_of,
)
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.batch.driver import run_batch
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.zoo.read_zoo import read_document
from trtsmith.converter.batch.zoo.zoo_file import Given, ZooFile, did_you_mean
from trtsmith.converter.engine.runtime import engine_module
from trtsmith.converter.engine.runtime.engine_module import ConvertedEngine, Engine
from trtsmith.importers.problem import Problem
from trtsmith.zoo_commands import zoo_commands

_MODELS = (".onnx", ".pt2")
_FILE = "options"
_PLACE = re.compile(rf"{_FILE}, line 1: model(?:\.([\w-]+))?(?:\.[^,]*)?")
"""A place in the zoo that options become: the option's name."""

_SETTING = re.compile(r"([a-z][\w-]*) = ([\['\"].*)")
"""A fix for a zoo's file: an option, and its value as both TOML and Python write it."""


@checked_types()
def load(
    engine: StrPath | ConvertedEngine,
    *,
    plugins: Paths = (),
    flavour: str = "auto",
    runtime_cache: StrPath | None = None,
    cuda_graph: bool = False,
    device: Device = 0,
    options: Settings | None = None,
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
    device:  the number of the GPU, or as PyTorch has it: "cuda:1", a torch.device; "cuda" is GPU 0.
    options: for a model, those of `convert`, as far as a zoo file has them: {"shapes": {"x": (1, 4)}, "precision": "fp16"}.
    cache:   for a model, the folder of the cache; None: the user's.
    progress: for a model, a function that gets a line when it is converted.

    Raises UsageError: no GPU, no TensorRT, no cuda-core, an engine of another TensorRT or GPU, libraries that are missing or
    others than those that the manifest is about. ConversionError, for a model without an engine.
    """
    how: dict[str, Any] = {
        "runtime_cache": path_of(runtime_cache),
        "cuda_graph": cuda_graph,
        "device": gpu_number(device),
    }
    libraries = [os.fspath(path) for path in paths_of(plugins)]
    if not isinstance(engine, (str, os.PathLike)) or Path(engine).suffix not in _MODELS:
        return engine_module.load(engine, plugins=libraries, flavour=flavour, **how)
    model = Path(os.path.abspath(engine))
    if not model.is_file():
        raise UsageError("the model file does not exist", str(model), "a file", "correct the path")
    asked = {"flavour": flavour, "plugins": libraries, **(options or {})}
    given = with_defaults(BatchOptions, {"jobs": 1, "cache": cache})
    lines = ProgressLines(logged(progress))
    with ScratchFolder("load") as folder, _naming_options():
        request = request_of(_tasks(model, asked), Path(folder, "results"), given, model.name)
        done = run_batch(request, lines, lines.warn)
        for record in done.records():
            if record.problems:
                raise ConversionError(record.problems)
            if done.passed:
                return engine_module.load(done.folder / record.name / "model.plan", **how)
            what = f"the engine is not used: {record.status.value}"
            fix = "`trtsmith locate` finds the node; or options={'no_verify': True} to compare nothing"
            raise ConversionError(what, str(engine), "outputs that agree with the model's", fix)
    raise UsageError("the conversion was ended", str(engine), "an engine", "load it again")


def _tasks(model: Path, options: Mapping[str, Any]) -> tuple[BatchTask, ...]:
    """The task of a zoo with this model alone. Paths in options are relative to the current folder."""
    commands = zoo_commands()
    known = [name.replace("-", "_") for name in commands.convert.options()]
    unknown = [
        Problem(
            f"unknown option {name!r}",
            "options",
            "options of `convert` that a zoo can have, with underscores",
            did_you_mean(name, known),
        )
        for name in options
        if name not in known
    ]
    if unknown:
        raise UsageError(unknown)
    entry = {name.replace("_", "-"): _plain(name, value) for name, value in options.items()}
    given = {name: value for name, value in entry.items() if value not in (None, "", [])}
    zoo = {"model": [{"path": str(model), "name": "model", **given}]}
    return read_document(Given(ZooFile(Path(_FILE), Path.cwd(), {}), (), "", zoo), commands)


def _plain(name: str, value: Any) -> Any:
    """The value as a zoo has it."""
    if name in ("shapes", "values"):
        value = ranges_of(value, *(("x", "{}") if name == "shapes" else (",", "[{}]")))
    try:
        return json.loads(json.dumps(value, default=os.fspath))
    except TypeError as error:
        expected = "texts, numbers, paths, and lists of them"
        fix = "name a file in the place of arrays; or `convert`, and load what it returns"
        raise UsageError(
            f"an option cannot be written to a zoo: {error}", "options", expected, fix
        ) from error


@contextmanager
def _naming_options() -> Iterator[None]:
    """In the block, errors on options of `convert` show them as `load` takes them, and not as a zoo or a command does."""
    words = ArgumentWords({option.name: option.kind for option in options_of(CONVERSION)}, {})
    try:
        yield
    except TrtsmithError as error:
        error.problems = tuple(_in_options(one.reworded(words.said)) for one in error.problems)
        error.args = ("\n".join(map(str, error.problems)),)
        raise


def _in_options(problem: Problem) -> Problem:
    where = _PLACE.sub(lambda found: _item(found[1]) if found[1] else "options", problem.where)
    setting = _SETTING.fullmatch(problem.fix)
    fix = problem.fix if setting is None else f"options={{{_key(setting[1])}: {setting[2]}}}"
    return replace(problem, where=where, fix=fix)


def _item(name: str) -> str:
    return f"options[{_key(name)}]"


def _key(name: str) -> str:
    return '"' + name.replace("-", "_") + '"'
