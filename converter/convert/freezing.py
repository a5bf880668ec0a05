"""Stage: chooses inputs that become constants: by --freeze NAME=VALUE, and by --inputs FILE.npz as an example."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import onnx

from trtsmith.converter.base.arrays import ArraySource, load_array, load_arrays, named_source
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.kinds import ARRAYS, FREEZE, Flag, Freeze
from trtsmith.converter.base.options.shapes import graph_inputs
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.freeze import example_flag, inputs_to_freeze, value_problems
from trtsmith.converter.rewrite.local_functions import inlined
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.target import TENSORRT, Target
from trtsmith.converter.verify.given import load_inputs
from trtsmith.importers.dtypes import numpy_dtype
from trtsmith.importers.problem import Problem

_FORM = "NAME=VALUE: 3, 0.5, true, [0,1], or @FILE.npy"

Values = Mapping[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class FreezingOptions:
    """Inputs to freeze, and example inputs that give values to those that TensorRT needs constant."""

    TITLE: ClassVar[str] = "shapes and inputs"

    freeze: Annotated[
        Freeze,
        Flag(
            "make an input a constant: axes=[0,1], k=3, ratio=0.5, training=true, or grid=@FILE.npy; may be repeated",
            "NAME=VALUE",
            kind=FREEZE,
        ),
    ] = ()
    inputs: Annotated[ArraySource | None, Flag("example inputs, {}", "NPZ", common=True, kind=ARRAYS)] = None


def rewrite_frozen(
    model: Model,
    freeze: Freeze = (),
    inputs: ArraySource | None = None,
    target: Target = TENSORRT,
    profile: ProfileRanges | None = None,
    progress: Progress | None = None,
) -> tuple[Rewritten, dict[str, np.ndarray]]:
    """Returns the model rewritten with frozen inputs, and the values of these.

    inputs: an .npz file, or arrays; what TensorRT wants constant, and `freeze` does not name, gets the value that is there.
    target: the TensorRT for which it is rewritten. profile: what the graph has to hold for; None: for any sizes.
    UsageError lists what is wrong.
    """
    values = parse_freeze(freeze, model.proto)
    if inputs is None:
        return rewrite(model, target, freeze=values, profile=profile, progress=progress), values
    if isinstance(inputs, Path) and inputs.suffix == ".npy":
        load_inputs(inputs, graph_inputs(model.proto))  # says how it becomes an .npz file
    examples = load_arrays(inputs, "--inputs")
    whole = _without_functions(model)
    values |= _chosen(model, examples, inputs_to_freeze(whole, deciding=False) - values.keys(), inputs)
    result = rewrite(model, target, freeze=values, profile=profile, progress=progress)
    if any(record.fatal for record in result.declined):
        more = _chosen(model, examples, inputs_to_freeze(whole) - values.keys(), inputs)
        if more:
            values |= more
            result = rewrite(model, target, freeze=values, profile=profile, progress=progress)
    return result, values


def freezable(model: Model) -> frozenset[str]:
    """Returns the inputs that `rewrite_frozen` may freeze to the values of `inputs`. Raises ConversionError for functions
    that stay.
    """
    return inputs_to_freeze(_without_functions(model))


def _without_functions(model: Model) -> onnx.ModelProto:
    """The model with functions inlined, as they rename the inputs that they read."""
    return inlined(model).proto


def parse_freeze(freeze: Freeze, proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Parses values by input name. Raises UsageError for wrong forms, unknown inputs, duplicates, and wrong types or
    shapes.
    """
    inputs = {value.name: value for value in proto.graph.input}
    values: dict[str, np.ndarray] = {}
    problems: list[Problem] = []
    for text, name, value in _given(freeze, inputs):
        where = f"--freeze {text}"
        if not name or (isinstance(value, str) and not value):
            problems.append(Problem(f"{text!r} names no value", where, _FORM, "--freeze axes=[0,1]"))
        elif name in values:
            problems.append(
                Problem(f"{name!r} is frozen twice", where, "one flag for each input", "remove one")
            )
        elif name not in inputs:
            problems += value_problems(inputs, name, np.zeros(0))
        else:
            try:
                values[name] = _value(value, inputs[name])
            except UsageError as error:
                problems += error.problems
                continue
            problems += value_problems(inputs, name, values[name])
    if problems:
        raise UsageError(problems)
    return values


def _given(freeze: Freeze, inputs: Mapping[str, object]) -> list[tuple[str, str, Any]]:
    """Lists the frozen inputs: their name in messages, their name and their value."""
    if isinstance(freeze, Mapping):
        return [(name, name, value) for name, value in freeze.items()]
    return [(text, *_split(text, inputs)) for text in freeze]


def _split(text: str, inputs: Mapping[str, object]) -> tuple[str, str]:
    """Splits NAME=VALUE at the first = after the name of an input, which may contain = itself; else at the first."""
    places = [i for i, character in enumerate(text) if character == "="]
    cut = next((i for i in places if text[:i] in inputs), places[0] if places else len(text))
    return text[:cut], text[cut + 1 :]


def _value(given: Any, value: onnx.ValueInfoProto) -> np.ndarray:
    """The value in the input's type; arrays as they are. Raises UsageError if it does not fit the type."""
    where, fix = f"--freeze {value.name}={given}", f"--freeze {example_flag(value)}   (with your own value)"
    if isinstance(given, (np.ndarray, np.generic)):
        return np.asarray(given)
    if isinstance(given, str) and given.startswith("@"):
        return load_array(Path(given[1:]), "--freeze")
    elem_type = value.type.tensor_type.elem_type
    if not value.type.HasField("tensor_type") or elem_type in (0, onnx.TensorProto.STRING):
        what = f"input {value.name!r} is not a tensor of numbers"
        raise UsageError(what, where, "an input of numbers or booleans", "remove the flag")
    dtype = numpy_dtype(elem_type)
    try:
        read = np.array(json.loads(given, parse_int=_whole) if isinstance(given, str) else given)
    except (ValueError, RecursionError, OverflowError):
        raise UsageError(f"{given!r} is not a value", where, _FORM, fix) from None
    array = _in_type(read, dtype)
    if array is None:
        raise UsageError(f"{given} is not {dtype}", where, f"values of type {dtype}", fix)
    return array


def _whole(digits: str) -> int:
    # Far beyond any type; int() refuses 5,000 digits.
    return int(digits) if len(digits) < 40 else int(digits[:40])


def _in_type(read: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray | None:
    """The array in the type; None if an element does not fit: a fraction for integers, or out of range."""
    if read.size == 0:
        return read.astype(dtype)
    if dtype.kind == "b":
        return read.astype(dtype) if read.dtype.kind == "b" else None
    if read.dtype.kind == "b" or read.dtype.kind not in "iufO":
        return None
    if dtype.kind not in "iu":  # floats, those of ml_dtypes among them
        return None if read.dtype == np.object_ else read.astype(np.float64).astype(dtype)
    if read.dtype.kind == "f":
        return None
    limits = np.iinfo(dtype)
    fits = all(
        isinstance(item, int) and limits.min <= item <= limits.max for item in read.reshape(-1).tolist()
    )
    return read.astype(dtype) if fits else None


def _chosen(
    model: Model, examples: Values, names: frozenset[str] | set[str], source: ArraySource
) -> dict[str, np.ndarray]:
    """The examples with these names. Raises UsageError if one does not fit its input."""
    inputs = {value.name: value for value in model.proto.graph.input}
    chosen = {name: examples[name] for name in sorted(names) if name in examples}
    flag = named_source("--inputs", source) + ":"
    problems = [p for name, value in chosen.items() for p in value_problems(inputs, name, value, flag)]
    if problems:
        raise UsageError(problems)
    return chosen
