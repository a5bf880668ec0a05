"""Normalises the public API's arguments: paths, single values or lists, and the texts of flags.

What the command line can say is parsed in one place. Python's values become such texts, so that both are judged alike.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import onnx

from trtsmith.argument_types import checked_types
from trtsmith.converter.base.arrays import load_arrays
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.option_values import check_values, is_seconds
from trtsmith.converter.base.options.declared import Options, options_of, with_defaults
from trtsmith.converter.base.options.kinds import (
    ARRAYS,
    SHAPES,
    Arrays,
    Paths,
    Progress,
    StrPath,
    arrays_of,
    path_of,
    paths_of,
    profiles_of,
)
from trtsmith.converter.convert.opening import GivenModel
from trtsmith.converter.convert.pytorch.torch_source import (
    EXPORT_TIMEOUT_S,
    TorchFactory,
    TorchFile,
    TorchModule,
    source_of_text,
)
from trtsmith.converter.model.model_bytes import NAME, ModelBytes, ModelSource
from trtsmith.converter.operators.loading import operators_in_force
from trtsmith.importers.problem import Problem
from trtsmith.options import Torch

ModelLike = StrPath | bytes | onnx.ModelProto | Any
"""A path, a model in memory, or a torch.nn.Module or torch.export.ExportedProgram."""

Example = StrPath | tuple[Any, ...] | None
"""Example arguments of a module; of a model file, the output's path may stand in their place."""

_RANGES = SHAPES.example.partition(", or")[0]

P = ParamSpec("P")
T = TypeVar("T")


def with_operators(options: Options = ()) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Checks types as checked_types does, and puts the operators from outside in force while the function runs.

    Its arguments `ops` and `plugins_from_packages` name them.
    """

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        @checked_types(options)
        @wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> T:
            specs = [str(path) for path in paths_of(cast(Paths, named.get("ops", ())))]
            with operators_in_force(specs, installed=bool(named.get("plugins_from_packages", True))):
                return function(*arguments, **named)

        return call

    return decorated


_LOG = logging.getLogger("trtsmith")
_LOG.addHandler(logging.NullHandler())  # an application that wants the lines says where they go


def logged(progress: Progress | None) -> Progress:
    """Returns the progress of a call, which also logs each line to the logger `trtsmith`, as information."""

    def tell(text: str) -> None:
        _LOG.info("%s", text)
        if progress is not None:
            progress(text)

    return tell


unheard = logged(None)
"""The progress of a call that takes none."""


def model_of(model: ModelLike, args: Example, kwargs: Any, given: SimpleNamespace) -> GivenModel:
    """Normalises the model: a file, bytes of one, or a PyTorch module or program with its example."""
    example = None if isinstance(args, (str, os.PathLike)) else args
    of_torch = {"args": example, "kwargs": kwargs, "dynamic_shapes": given.dynamic_shapes}
    of_torch |= {"custom_translation_table": given.custom_translation_table}
    if isinstance(model, (str, os.PathLike)):
        source = named_model(os.fspath(model), given)
        _refuse(str(source), of_torch)
        return source
    if isinstance(model, (bytes, bytearray, memoryview, onnx.ModelProto)):
        _refuse(NAME, of_torch | {"save_onnx": given.save_onnx})
        data = _serialised(model) if isinstance(model, onnx.ModelProto) else bytes(model)
        return ModelBytes(data, path_of(given.data_folder))
    if kwargs is not None and not isinstance(kwargs, Mapping):
        fix = (
            f"output={os.fspath(kwargs)!r}"
            if isinstance(kwargs, (str, os.PathLike))
            else "kwargs={'mask': mask}"
        )
        what = f"{kwargs!r} is given for the module's arguments by name"
        raise UsageError(what, "kwargs, the third argument", "a dict of values by name", fix)
    translations = given.custom_translation_table or {}
    return TorchModule(
        model, example, kwargs or {}, given.dynamic_shapes, translations, path_of(given.save_onnx)
    )


def named_model(text: str, given: Any) -> Path | TorchFile | TorchFactory:
    """Finds the ONNX file, or PyTorch's program or function, that the text names. UsageError for a file to export it to."""
    source = source_of_text(text)
    if not isinstance(source, Path):
        seconds = given.export_timeout
        check_values(("--export-timeout", seconds, is_seconds))
        limit = EXPORT_TIMEOUT_S if seconds is None else seconds
        return replace(source, save=path_of(given.save_onnx), timeout_s=limit)
    if given.save_onnx is not None:
        what, where = f"{source} is an ONNX model already", f"--save-onnx {given.save_onnx}"
        raise UsageError(what, where, "a program of PyTorch", "leave it out")
    return source


def onnx_of(model: StrPath | bytes | onnx.ModelProto, data_folder: StrPath | None = None) -> ModelSource:
    """Normalises an ONNX model: a file, or the bytes of one."""
    source = model_of(model, None, None, with_defaults(Torch, {"data_folder": data_folder}))
    if not isinstance(source, (Path, ModelBytes)):
        expected = "the ONNX model: a path, an onnx.ModelProto, or the bytes of one"
        fix = "convert it with save_onnx=..., and give that file"
        raise UsageError(f"{source} is not an ONNX model", "model", expected, fix)
    return source


def _refuse(name: str, given: Mapping[str, Any]) -> None:
    """UsageError for arguments that only go with a model that Python has in memory as PyTorch's."""
    problems = [
        Problem(
            f"{argument} is given for a model that does not come from PyTorch",
            f"{name}: {argument}",
            "a torch.nn.Module or ExportedProgram",
            _instead(argument, value),
        )
        for argument, value in given.items()
        if value is not None
    ]
    if problems:
        raise UsageError(problems)


def _instead(argument: str, value: object) -> str:
    """What stands for such an argument where the model is an ONNX file."""
    if argument == "dynamic_shapes":
        return f"give the smallest, usual and largest sizes: shapes={_RANGES}"
    if argument == "args" and isinstance(value, Mapping):
        return f"give sizes as shapes={_RANGES}, and arrays as inputs={ARRAYS.example}"
    return "leave it out"


def _serialised(model: onnx.ModelProto) -> bytes:
    try:
        return bytes(model.SerializeToString())
    except Exception as error:  # protobuf's, of 2 GiB and more
        raise UsageError(
            f"the ModelProto cannot be serialised: {error}",
            NAME,
            "a model of less than 2 GiB in memory",
            "save it with its weights as external data, and give the path of the file",
        ) from error


def output_of(output: StrPath | None, args: Example = None) -> Path | None:
    """Returns the output's path, which may follow the model's: convert("model.onnx", "model.plan")."""
    second = args if isinstance(args, (str, os.PathLike)) else None
    if output is not None and second is not None:
        raise UsageError(
            "the output is named twice", f"{second}, output={output}", "one of the two", "leave one out"
        )
    return path_of(output if second is None else second)


def feeds_of(given: Arrays) -> dict[str, np.ndarray]:
    """Returns the given inputs as arrays, loaded if they are a file's path; none for None."""
    source = arrays_of(given, "inputs")
    return {} if source is None else load_arrays(source, "--inputs")


def stage_options(stage: type[T], declared: Options, given: Any, **more: Any) -> T:
    """Makes a stage's options: those declared for its fields, as their kinds read them, and more."""
    if any(field.name == "more_shapes" for field in fields(cast(Any, stage))):
        first, *others = profiles_of(given)
        more |= {"shapes": first, "more_shapes": tuple(others)}
    asked = [option for option in options_of(declared) if option.is_of(stage) and option.field not in more]
    return stage(**{o.field: o.kind.read(getattr(given, o.name), o.name) for o in asked}, **more)
