"""Reads the user's inputs and expected outputs, and checks them against the model.

They come from .npz files, as arrays, or of `verify` from Polygraphy's JSON, of one iteration or several.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

from trtsmith.converter.base.arrays import (
    ArraySource,
    as_declared,
    load_array,
    load_arrays,
    named_source,
    told_source,
)
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.fitting_arrays import fitting_command, fitting_expression, pixels
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange, spec_of
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.runtime.feeds import profile_problems
from trtsmith.converter.engine.runtime.tensors import TensorSpec
from trtsmith.converter.verify.polygraphy_files import load_inputs_json, load_outputs_json, of_types
from trtsmith.importers.dtypes import BITS, dtype_name
from trtsmith.importers.problem import Problem


def told(inputs: ArraySource | None, expected: ArraySource | None) -> str:
    """Names the source of the inputs in words: "generated", the files, or given arrays."""
    said = "generated" if inputs is None else told_source(inputs)
    return said if expected is None else f"{said}, outputs expected: {told_source(expected)}"


def without_inputs(outputs: str, fix: str = "add --inputs FILE.npz") -> UsageError:
    """Makes the error for expected outputs without inputs. outputs: flag and source."""
    what = "outputs are given without their inputs"
    return UsageError(what, outputs, "the inputs that they were computed from, too", fix)


def load_expected(
    source: ArraySource, outputs: Sequence[onnx.ValueInfoProto], inputs: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Loads the model's outputs by name and in its types, from a file or arrays.

    inputs: names of arrays of --inputs, whose file may be given by mistake.
    UsageError if one is missing, is none of the model's, or is of a type that does not become the model's.
    """
    where, names = named_source("--expected", source), [value.name for value in outputs]
    tensors = [value.type.tensor_type for value in outputs]
    known = all(one.elem_type in BITS and one.HasField("shape") for one in tensors)
    specs = list(map(spec_of, outputs)) if known else []
    if isinstance(source, Path) and source.suffix == ".npy":
        raise _nameless(source, specs, where, "--expected", "output")
    arrays = load_arrays(source, "--expected")
    if arrays and arrays.keys() <= set(inputs) - set(names):
        fix = "these are the model's inputs: give the outputs that your framework computes from them"
    else:
        fix = _line_for(arrays, names, specs, source)
    return of_the_models_types(fitting_outputs(arrays, names, where, fix), outputs, where)


def check_batch(
    expected: Mapping[str, np.ndarray],
    feeds: Mapping[str, np.ndarray],
    specs: Sequence[InputSpec],
    outputs: Sequence[onnx.ValueInfoProto],
    where: str,
) -> None:
    """Raises UsageError for expected outputs of another batch than the inputs, whose first dimension has the same name."""
    batches = {spec.names[0]: spec.name for spec in specs if spec.names}
    problems = []
    for value in outputs:
        name = next((dim.dim_param for dim in value.type.tensor_type.shape.dim), "")
        given, of = expected[value.name].shape[:1], batches.get(name, "") if name else ""
        if of and given and given != (size := feeds[of].shape[:1]):
            what = f"the expected output {value.name!r} is of {name} {given[0]}, and the input {of!r} of {size[0]}"
            fix = "give the outputs that your framework computes from these inputs"
            problems.append(Problem(what, where, f"{size[0]} in both", fix))
    if problems:
        raise UsageError(problems)


def _line_for(
    arrays: Mapping[str, np.ndarray], names: Sequence[str], specs: Sequence[InputSpec], source: ArraySource
) -> str:
    """The line of numpy that makes arrays of other names fit; "" where none is known."""
    other = arrays.keys() != set(names) and bool(specs)
    return fitting_line(arrays, specs, source, "--expected") if other else ""


def of_the_models_types(
    arrays: Mapping[str, np.ndarray], outputs: Sequence[onnx.ValueInfoProto], where: str
) -> dict[str, np.ndarray]:
    """Converts outputs to the model's types: floats are rounded, whole numbers must fit.

    Frameworks compute in other float types than a model that was converted to float16. UsageError for floats in the place
    of whole numbers, whole numbers in the place of floats, and values that the type does not hold.
    """
    result, problems = dict(arrays), []
    for value in outputs:
        number = value.type.tensor_type.elem_type
        if value.name not in arrays or number not in BITS:
            continue
        dtype = dtype_name(number)
        array = as_declared(arrays[value.name], dtype)
        there = _cast(array, np.dtype(dtype))
        if there is None:
            what = f"the expected output {value.name!r} is {array.dtype}, and the model's is {dtype}"
            problems.append(Problem(what, where, f"an array of {dtype}", "save it in that type"))
            continue
        result[value.name] = there
        lost = np.isfinite(array) & ~np.isfinite(there) if there.dtype != array.dtype else np.False_
        if lost.any():
            what = (
                f"the expected output {value.name!r} has values that {dtype} does not hold: {array[lost][0]}"
            )
            fix = "correct the file, or export the model with outputs of another type"
            problems.append(Problem(what, where, f"values of {dtype}, as the model's are", fix))
    if problems:
        raise UsageError(problems)
    return result


def _cast(array: np.ndarray, dtype: np.dtype[np.generic]) -> np.ndarray | None:
    """The array in the type; None where it is of another kind, or whole numbers do not fit."""
    if array.dtype == dtype:
        return array
    floats, whole = "float" in dtype.name, dtype.kind in "iub"
    if (floats and "float" not in array.dtype.name) or (whole and array.dtype.kind not in "iub"):
        return None
    with np.errstate(all="ignore"):
        there = array.astype(dtype)
    return there if floats or (whole and np.array_equal(there, array)) else None


def profile_of(
    feeds: Mapping[str, np.ndarray],
    specs: Sequence[InputSpec],
    profiles: Sequence[Mapping[str, ShapeRange]],
    values: Mapping[str, ShapeRange],
    where: str,
) -> int:
    """Returns the first profile that accepts the inputs. Raises UsageError if none does.

    values: those that each profile allows of shape tensors. where: flag and source of the inputs.
    """
    found: list[list[Problem]] = []
    tensors = [_tensor(spec, profiles, values) for spec in specs]
    for number in range(len(profiles)):
        found.append([p for tensor in tensors for p in profile_problems(tensor, feeds[tensor.name], number)])
        if not found[-1]:
            return number
    raise UsageError([replace(problem, where=f"{where}, {problem.where}") for problem in found[0]])


def _tensor(
    spec: InputSpec, profiles: Sequence[Mapping[str, ShapeRange]], values: Mapping[str, ShapeRange]
) -> TensorSpec:
    """The input as the engine will have it. One of fixed sizes is in no profile."""
    is_values = spec.name in values
    ranges = [(values if is_values else one).get(spec.name) for one in profiles]
    allowed = tuple(Profile(r.min, r.opt, r.max, is_values) for r in ranges if r is not None)
    shape = tuple(-1 if size is None else size for size in spec.shape)
    return TensorSpec(spec.name, spec.dtype, shape, True, is_values, allowed)


def fitting_outputs(
    arrays: Mapping[str, np.ndarray], outputs: Sequence[str], where: str, fix: str = ""
) -> dict[str, np.ndarray]:
    """Returns the model's outputs by name, from arrays that the user gave at `where`. UsageError as for `load_expected`.

    fix: for arrays of other names; "" where none is known.
    """
    problems = []
    for name in outputs:
        if name not in arrays:
            what, have = f"no array for output {name!r}", ", ".join(map(repr, arrays)) or "nothing"
            expected = f"an array for each of {', '.join(map(repr, outputs))}"
            problems.append(Problem(what, where, expected, fix or f"it holds {have}: add it"))
    for name in arrays:
        if name not in outputs:
            what, expected = f"the model has no output {name!r}", "one of: " + ", ".join(map(repr, outputs))
            problems.append(Problem(what, where, expected, fix or "correct or remove the array"))
    if problems:
        raise UsageError(problems)
    return {name: arrays[name] for name in outputs}


def load_inputs(source: ArraySource, specs: Sequence[InputSpec]) -> dict[str, np.ndarray]:
    """Inputs by name from an .npz file or as arrays. UsageError if they do not fit the model's inputs."""
    where = named_source("--inputs", source)
    if isinstance(source, Path) and source.suffix == ".npy":
        raise _nameless(source, specs, where, "--inputs", "input")
    return fitting_inputs(load_arrays(source, "--inputs"), specs, where, source)


def unused_arrays(names: Iterable[str], inputs: Iterable[str], where: str) -> tuple[str, ...]:
    """Warns of arrays that are none of the model's inputs. where: flag and source of the arrays."""
    known = tuple(inputs)
    left = [name for name in names if name not in known]
    if not left:
        return ()
    not_used = f"{', '.join(map(repr, left))} of {where} {'is' if len(left) == 1 else 'are'} not used"
    return (f"{not_used}: the model's inputs are {', '.join(map(repr, known))}",)


def check_indices(feeds: Mapping[str, np.ndarray], graph: onnx.GraphProto, where: str) -> None:
    """Raises UsageError for inputs that index a table of the model beyond its end. where: flag and source of the arrays."""
    tables = {tensor.name: tensor.dims for tensor in graph.initializer}
    for node in graph.node:
        if (
            node.op_type != "Gather"
            or node.domain
            or node.input[0] not in tables
            or node.input[1] not in feeds
        ):
            continue
        table, name = node.input
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        size, ids = tables[table][axis], feeds[name]
        beyond = np.argwhere((ids < -size) | (ids >= size))
        if len(beyond):
            at = tuple(map(int, beyond[0]))
            what = f"{name}[{', '.join(map(str, at))}] is {ids[at]}, and the table {table!r} that it indexes has {size}"
            raise UsageError(what, where, f"whole numbers from 0 to {size - 1}", f"correct {name!r}")


def _nameless(path: Path, specs: Sequence[InputSpec], where: str, flag: str, kind: str) -> UsageError:
    """The error for an .npy file, which has one array and no name."""
    reading = f'{{"": np.load({json.dumps(str(path))})}}'
    fix = fitting_command({"": load_array(path, flag)}, specs, path, reading, flag)
    what, expected = (
        "the file holds a single array, without a name",
        f"an .npz file with an array for each {kind}",
    )
    return UsageError(what, where, expected, fix or "write it with numpy.savez")


def fitting_inputs(
    arrays: Mapping[str, np.ndarray],
    specs: Sequence[InputSpec],
    where: str,
    source: ArraySource | None = None,
) -> dict[str, np.ndarray]:
    """The model's inputs by name, of arrays that a user gave at `where`. UsageError if they do not fit.

    source: of what a line of numpy is advised that makes them fit; None: of nothing.
    """
    feeds = dict(arrays)
    problems = []
    for spec in specs:
        value = feeds.get(spec.name)
        if value is None:
            have = ", ".join(feeds) or "nothing"
            problems.append(
                Problem(
                    f"no array for input {spec.name!r}",
                    where,
                    f"an array {spec.name!r}",
                    f"it holds {have}: add it",
                )
            )
            continue
        feeds[spec.name] = value = as_declared(value, spec.dtype)
        if not _fits(value, spec):
            what = f"input {spec.name!r} is {value.dtype}{list(value.shape)}"
            dims = ", ".join(
                str(d) if d is not None else n or "?" for d, n in zip(spec.shape, spec.names, strict=True)
            )
            problems.append(
                Problem(what, where, f"{spec.dtype}[{dims}]", "save an array of that type and shape")
            )
    if problems:
        line = fitting_line(arrays, specs, source, "--inputs") or _ways_of_a_fixed_batch(
            arrays, specs, source
        )
        raise UsageError([replace(one, fix=line) for one in problems] if line else problems)
    return {spec.name: feeds[spec.name] for spec in specs}


def fitting_line(
    arrays: Mapping[str, np.ndarray], specs: Sequence[InputSpec], source: ArraySource | None, flag: str
) -> str:
    """Returns the command, in Python the expression, that makes the arrays fit; "" where there is not one way to do it."""
    if isinstance(source, Path):
        reading = f"np.load({json.dumps(str(source))})"
        if source.suffix == ".json":
            reading = f"from polygraphy.json import load_json; load_json({json.dumps(str(source))})[0]"
        return fitting_command(arrays, specs, source, reading, flag)
    keyword = flag.removeprefix("--")
    expression = "" if source is None else fitting_expression(arrays, specs, keyword)
    return expression and f"{keyword}={expression}{pixels(expression)}"


def of_any_batch(specs: Sequence[InputSpec]) -> list[InputSpec]:
    """Returns the inputs with a first axis of any size."""
    return [replace(spec, shape=(None, *spec.shape[1:])) if spec.shape else spec for spec in specs]


def _ways_of_a_fixed_batch(
    arrays: Mapping[str, np.ndarray], specs: Sequence[InputSpec], source: ArraySource | None
) -> str:
    """What to do with several batches for a model of a fixed one; "" for arrays that do not fit for another reason."""
    batches = {spec.shape[:1] for spec in specs}
    counts = {arrays[spec.name].shape[:1] if spec.name in arrays else () for spec in specs}
    if len(batches) > 1 or len(counts) > 1 or () in batches | counts:
        return ""
    (batch,), (count,) = batches.pop(), counts.pop()
    expression = fitting_expression(arrays, of_any_batch(specs), "a")
    moved = expression.count(".transpose(") > expression.count(".transpose(0,")
    if not batch or count <= batch or count % batch or not expression or moved or "[None]" in expression:
        return ""
    axes = {spec.name: {0: "batch"} for spec in specs}
    ways = f"the model has a fixed batch of {batch}: export it with torch.onnx.export(..., dynamic_axes={axes}); or give "
    if not isinstance(source, Path) or source.suffix != ".npz" or "file" in axes:  # numpy.savez's own
        return f"{ways}one batch at a time, array[i : i + {batch}] of each array"
    start = source.with_suffix("")
    code = (
        f"import numpy as np; a = np.load({json.dumps(str(source))}); b = {expression}; "
        f"[np.savez({json.dumps(f'{start}.')} + str(i), **{{n: v[i : i + {batch}] for n, v in b.items()}}) "
        f"for i in range(0, {count}, {batch})]"
    )
    first = shlex.quote(f"{start}.0.npz")
    return (
        f"{ways}one batch at a time: python -c {shlex.quote(code)}, then --inputs {first}{pixels(expression)}"
    )


def _fits(value: np.ndarray, spec: InputSpec) -> bool:
    if str(value.dtype) != spec.dtype or len(value.shape) != len(spec.shape):
        return False
    return all(d is None or d == size for d, size in zip(spec.shape, value.shape, strict=True))


@dataclass(frozen=True)
class GivenInputs:
    """Inputs from files.

    arrays: by name for each iteration. where: flag and file of each. words: for the verdict. source: of a single iteration.
    """

    arrays: tuple[dict[str, np.ndarray], ...]
    where: tuple[str, ...]
    words: str
    source: ArraySource | None = None

    def fitting(self, specs: Sequence[InputSpec]) -> list[dict[str, np.ndarray]]:
        """Returns the arrays of the model's inputs. Raises UsageError if they do not fit it."""
        types = {spec.name: spec.dtype for spec in specs}
        return [
            fitting_inputs(of_types(one, types), specs, where, self.source)
            for one, where in zip(self.arrays, self.where, strict=True)
        ]

    def names(self) -> tuple[str, ...]:
        """Names the iterations in comparisons; "" for a single one."""
        return _names(len(self.arrays))


def given_inputs(inputs: ArraySource | None, load_inputs: Sequence[Path]) -> GivenInputs | None:
    """Loads the inputs of --inputs (.npz) or --load-inputs (Polygraphy's JSON); None without either. Raises UsageError."""
    if inputs is not None:
        place = named_source("--inputs", inputs)
        return GivenInputs((load_arrays(inputs, "--inputs"),), (place,), told_source(inputs), inputs)
    if not load_inputs:
        return None
    read = list(load_inputs_json(load_inputs, "--load-inputs"))
    names = _names(len(read))
    where = [
        f"--load-inputs {file}" + (f", {at}" if at else "") for (file, _), at in zip(read, names, strict=True)
    ]
    source = load_inputs[0] if len(read) == 1 and load_inputs[0].is_file() else None
    return GivenInputs(
        tuple(arrays for _, arrays in read), tuple(where), ", ".join(map(str, load_inputs)), source
    )


def given_outputs(
    expected: ArraySource | None,
    load_outputs: Path | None,
    outputs: Sequence[onnx.ValueInfoProto],
    inputs: GivenInputs | None,
) -> list[dict[str, np.ndarray]] | None:
    """Loads the outputs of --expected (.npz) or --load-outputs (JSON), for each iteration of the inputs; None without.

    outputs: the model's. UsageError if they do not fit these, or are of another number than the inputs.
    """
    names = [value.name for value in outputs]
    if expected is not None:
        fed = inputs.arrays[0] if inputs is not None else ()
        found, where = [load_expected(expected, outputs, fed)], named_source("--expected", expected)
    elif load_outputs is not None:
        where = f"--load-outputs {load_outputs}"
        read = load_outputs_json(load_outputs, "--load-outputs")
        places = [where + (f", {at}" if at else "") for at in _names(len(read))]
        found = [
            of_the_models_types(fitting_outputs(one, names, place), outputs, place)
            for one, place in zip(read, places, strict=True)
        ]
    else:
        return None
    count = len(inputs.arrays) if inputs is not None else 0
    if len(found) != count:
        raise UsageError(
            f"there are outputs of {len(found)} iterations, and inputs of {count}",
            f"{where}; {'; '.join(inputs.where) if inputs is not None else 'no inputs'}",
            "outputs for each iteration of the inputs",
            "save both in one run: polygraphy run MODEL ... --save-inputs IN.json --save-outputs OUT.json",
        )
    return found


def _names(count: int) -> tuple[str, ...]:
    return ("",) if count == 1 else tuple(f"iteration {index}" for index in range(count))
