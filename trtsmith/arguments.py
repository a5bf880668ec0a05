"""Normalises the public API's arguments: paths, single values or lists, and the texts of flags.

What the command line can say is parsed in one place. Python's values become such texts, so that both are judged alike.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import onnx

from trtsmith.argument_types import checked_types
from trtsmith.converter.convert.opening import GivenModel
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.pytorch.torch_source import EXPORT_TIMEOUT_S, TorchModule, source_of_text
from trtsmith.converter.convert.workarounds.refusals import Refusals, refusals
from trtsmith.converter.model.arrays import ArraySource, load_arrays
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.model_bytes import NAME, ModelBytes, ModelSource
from trtsmith.converter.model.option_values import check_values, is_seconds
from trtsmith.converter.model.options.gpu_names import parse_targets
from trtsmith.converter.model.shape_tensors import parse_values
from trtsmith.converter.model.shapes import ShapeRange, parse_shapes
from trtsmith.converter.operators.loading import operators_in_force
from trtsmith.converter.verify.tolerances import Tolerances, parse_tolerances
from trtsmith.importers.problem import Problem
from trtsmith.model_options import Torch
from trtsmith.options import (
    Arrays,
    Freeze,
    Option,
    Paths,
    Progress,
    Ranges,
    Samples,
    StrPath,
    Texts,
    Tolerance,
    options_of,
    with_defaults,
)

ModelLike = StrPath | bytes | onnx.ModelProto | Any
"""A path, a model in memory, or a torch.nn.Module or torch.export.ExportedProgram."""

Example = StrPath | tuple[Any, ...] | None
"""Example arguments of a module; of a model file, the output's path may stand in their place."""

P = ParamSpec("P")
T = TypeVar("T")


def with_operators(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with the operators from outside in force that its arguments `ops` and `plugins_from_packages` name.

    UsageError for arguments of a wrong type.
    """

    @checked_types
    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        specs = [str(path) for path in paths_of(cast(Paths, named.get("ops", ())))]
        with operators_in_force(specs, installed=bool(named.get("plugins_from_packages", True))):
            return function(*arguments, **named)

    return call


_LOG = logging.getLogger("trtsmith")
_LOG.addHandler(logging.NullHandler())  # an application that wants the lines says where they go


def logged(progress: Progress | None) -> Progress:
    """The progress of a call, of which the logger `trtsmith` gets each line, too, as information."""

    def tell(text: str) -> None:
        _LOG.info("%s", text)
        if progress is not None:
            progress(text)

    return tell


unheard = logged(None)
"""The progress of a call that takes none."""


def path_of(given: StrPath | None) -> Path | None:
    return None if given is None else Path(given)


def paths_of(given: Paths) -> tuple[Path, ...]:
    return tuple(map(Path, [given] if isinstance(given, (str, os.PathLike)) else given))


def model_of(model: ModelLike, args: Example, kwargs: Any, given: SimpleNamespace) -> GivenModel:
    """What the model is: a file, bytes of one, or something of PyTorch's with its example."""
    save, export_timeout = path_of(given.save_onnx), given.export_timeout
    example = None if isinstance(args, (str, os.PathLike)) else args
    of_torch = {"args": example, "kwargs": kwargs, "dynamic_shapes": given.dynamic_shapes}
    of_torch |= {"custom_translation_table": given.custom_translation_table}
    if isinstance(model, (str, os.PathLike)):
        source = source_of_text(os.fspath(model))
        _refuse(str(source), of_torch, "a torch.nn.Module or ExportedProgram")
        if isinstance(source, Path):
            _refuse(str(source), {"save_onnx": save, "export_timeout": export_timeout}, "a PyTorch program")
            return source
        return replace(source, save=save, timeout_s=_seconds(export_timeout))
    if isinstance(model, (bytes, bytearray, memoryview, onnx.ModelProto)):
        _refuse(NAME, of_torch | {"save_onnx": save}, "a torch.nn.Module or ExportedProgram")
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
    return TorchModule(model, example, kwargs or {}, given.dynamic_shapes, translations, save)


def onnx_of(model: StrPath | bytes | onnx.ModelProto, data_folder: StrPath | None = None) -> ModelSource:
    """An ONNX model: a file, or the bytes of one."""
    source = model_of(model, None, None, with_defaults(Torch, {"data_folder": data_folder}))
    if not isinstance(source, (Path, ModelBytes)):
        expected = "the ONNX model: a path, an onnx.ModelProto, or the bytes of one"
        fix = "convert it with save_onnx=..., and give that file"
        raise UsageError(f"{source} is not an ONNX model", "model", expected, fix)
    return source


def _refuse(name: str, given: Mapping[str, Any], needs: str) -> None:
    """UsageError for arguments that mean nothing with this kind of model."""
    problems = [
        Problem(
            f"{argument} is given for a model that does not come from PyTorch",
            f"{name}: {argument}",
            needs,
            "leave it out",
        )
        for argument, value in given.items()
        if value is not None
    ]
    if problems:
        raise UsageError(problems)


def _seconds(given: float | None) -> float:
    check_values(("--export-timeout", given, is_seconds))
    return EXPORT_TIMEOUT_S if given is None else given


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
    """The output's path, which may stand behind the model's: convert("model.onnx", "model.plan")."""
    second = args if isinstance(args, (str, os.PathLike)) else None
    if output is not None and second is not None:
        raise UsageError(
            "the output is named twice", f"{second}, output={output}", "one of the two", "leave one out"
        )
    return path_of(output if second is None else second)


def arrays_of(given: Arrays | None, name: str) -> ArraySource | None:
    """An .npz file's path, or arrays of numpy. name: of the argument, for messages."""
    if given is None or isinstance(given, (str, os.PathLike)):
        return path_of(given)
    if not isinstance(given, Mapping):
        raise UsageError(
            f"{name} is of the type {type(given).__name__}",
            name,
            "the path of an .npz file, or a dict of arrays by name",
            f"{name}={{'x': array}}",
        )
    return {str(key): _array(value, f"{name}[{key!r}]") for key, value in given.items()}


def feeds_of(given: Arrays) -> dict[str, np.ndarray]:
    """The arrays themselves."""
    source = arrays_of(given, "inputs")
    return {} if source is None else load_arrays(source, "--inputs")


def samples_of(given: Samples) -> tuple[ArraySource, ...]:
    several = given if isinstance(given, (list, tuple)) else (given,)
    return tuple(source for one in several if (source := arrays_of(one, "calibration")) is not None)


def _array(value: Any, where: str) -> np.ndarray:
    """An array of numbers. UsageError for anything else."""
    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        said = f"{where} holds {array.dtype}, not numbers" if array.dtype.hasobject else ""
    except Exception as error:  # of whatever library the value is
        array, said = np.empty(0), f"numpy cannot make an array of {where}: {error}"
    if said:
        raise UsageError(said, where, "an array of numbers", "give a numpy array")
    return array


def texts_of(given: Texts) -> tuple[str, ...]:
    """A single text stands for itself, not for its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def targets_of(given: Texts) -> tuple[str, ...]:
    """GPUs by their compute capability, sm89, however they were called: "RTX 4090", or "sm86,sm89"."""
    return tuple(dict.fromkeys(target for text in texts_of(given) for target in parse_targets(text)))


def freeze_of(given: Freeze) -> Freeze:
    return given if isinstance(given, Mapping) else texts_of(given)


def ranges_of(given: Ranges | None, between: str, form: str) -> list[str]:
    """NAME=MIN:OPT:MAX, or one part for all three. between: what stands between the numbers of a part. form: of a part."""
    if not isinstance(given, Mapping):
        return [*texts_of(given or ())]
    texts = []
    for name, range_ in given.items():
        if isinstance(range_, str) or not isinstance(range_, Iterable):
            texts.append(f"{name}={range_}")
            continue
        parts: Sequence[Any] = range_ if any(isinstance(part, Sized) for part in range_) else [range_]
        joined = (form.format(between.join(map(str, part))) for part in parts)
        texts.append(f"{name}={':'.join(joined)}")
    return texts


def shapes_of(given: Any) -> dict[str, ShapeRange]:
    """The shapes that are asked for, by input, where there is one optimization profile."""
    first, *others = profiles_of(given)
    if others:
        what = "several optimization profiles are given"
        expected = "one: convert, check and rewrite take several"
        raise UsageError(what, "--shapes", expected, "give the shapes of one profile")
    return first


def _shapes(given: Any) -> dict[str, ShapeRange]:
    """trtexec's flags are those of the command line alone."""
    trtexec = (getattr(given, f"{name}Shapes", "") for name in ("min", "opt", "max"))
    return parse_shapes(ranges_of(given.shapes, "x", "{}"), *trtexec)


def profiles_of(given: Any) -> list[dict[str, ShapeRange]]:
    """The shapes of each optimization profile, one at least: a list of dicts in Python, --profile on the command line."""
    several = given.shapes if isinstance(given.shapes, (list, tuple)) else ()
    if any(isinstance(one, Mapping) for one in several):
        return [parse_shapes(ranges_of(one, "x", "{}")) for one in several]
    return [_shapes(one) for one in (*getattr(given, "profiles", ()), given)]


def values_of(given: Any) -> dict[str, ShapeRange]:
    return parse_values(ranges_of(given.values, ",", "[{}]"))


def _read(option: Option, given: Any) -> Any:
    value = getattr(given, option.name)
    kind = option.type.removesuffix(" | None")
    if kind in ("Arrays", "Ranges"):
        return arrays_of(value, option.name) if kind == "Arrays" else _BY_NAME[option.name](given)
    return _READERS[kind](value) if kind in _READERS else value


_BY_NAME: Mapping[str, Callable[[Any], Any]] = {"shapes": shapes_of, "values": values_of}
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "StrPath": path_of,
    "Paths": paths_of,
    "Texts": texts_of,
    "Freeze": freeze_of,
    "Samples": samples_of,
}


def stage_options(stage: type[T], declared: type, given: Any, **more: Any) -> T:
    """The options of a stage: those that are declared under the names of its fields, read by their types, and more."""
    names = {field.name for field in fields(cast(Any, stage))} - more.keys()
    if "more_shapes" in names:
        first, *others = profiles_of(given)
        more |= {"shapes": first, "more_shapes": tuple(others)}
        names -= more.keys()
    return stage(**{o.name: _read(o, given) for o in options_of(declared) if o.name in names}, **more)


def precision_of(given: Any) -> PrecisionRequest:
    """UsageError: an option that means nothing with the precision that is, or is not, asked for."""
    return PrecisionRequest(
        given.precision,
        texts_of(given.keep_fp32),
        given.io_precision,
        samples_of(given.calibration),
        accumulate=given.accumulate,
        float_lstm=given.float_lstm,
    )


def refusals_of(given: Any, output: Path | None) -> Refusals:
    """What is done where TensorRT refuses the graph. output: the engine's file; None: there is none."""
    return refusals(
        output,
        path_of(given.refused),
        mend=given.mend,
        mend_with=texts_of(given.mend_with),
        reduce=given.reduce,
        reduce_timeout=given.reduce_timeout,
    )


def tolerances_of(
    rtol: Tolerance | None,
    atol: Tolerance | None,
    not_compared: Texts = (),
    compare: Mapping[str, str] | Sequence[str] | None = None,
    max_cost: float | None = None,
) -> Tolerances:
    """Reads tolerances: one for all outputs, or by the name of the output; and what outputs are compared as."""
    kinds = [f"{name}={kind}" for name, kind in compare.items()] if isinstance(compare, Mapping) else compare
    return parse_tolerances(
        _tolerance_texts(rtol), _tolerance_texts(atol), texts_of(not_compared), kinds or (), max_cost
    )


def _tolerance_texts(given: Tolerance | None) -> list[str]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [f"{name}:{value}" for name, value in given.items()]
    return [*texts_of(given)] if isinstance(given, Sequence) else [str(given)]
