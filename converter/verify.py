"""Stage: do the numbers agree? A verdict on outputs, and the graph comparison that needs no GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from converter.arrays import as_declared, load_arrays
from converter.errors import ConversionError, UsageError
from converter.modelfile.model import Model
from converter.modelfile.ort import run
from converter.passes.types import IoType, to_engine, to_model
from converter.rewrite import expand, reference
from converter.shapes import InputSpec, ShapeRange
from importers.problem import Problem

Arrays = Mapping[str, np.ndarray]

TOLERANCE: Mapping[str, float] = {
    "float64": 1e-4,
    "float32": 1e-4,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
}
"""||result - reference|| / ||reference|| allowed by output dtype when no --rtol or --atol is given.

float32: models.centernet_dcn amplifies rounding the most of our models; PyTorch and onnxruntime are each up to 5e-5 from
float64 there, and 7e-5 from each other. A wrong attribute or a swapped axis gives 1e-2 and more. float16 and bfloat16: two
roundings. float64 is judged as float32, in which TensorRT computes it. Integers and booleans must be equal.
"""

SEED = 20240229
"""Of generated inputs: two runs see the same numbers."""


@dataclass(frozen=True)
class Comparison:
    """One output. Differences are absolute; `relative` is the ratio of norms; `worst` is the index of the largest."""

    output: str
    dtype: str
    shape: tuple[int, ...]
    agrees: bool
    reason: str
    relative: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    p99: float = 0.0
    worst: tuple[int, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """agree, disagree or not comparable; only `agree` is a pass.

    engine_run: whether the engine itself was run, or only the graphs from which it is built.
    """

    status: str
    reason: str
    engine_run: bool
    inputs: str
    comparisons: tuple[Comparison, ...] = ()

    @property
    def passed(self) -> bool:
        return self.status == "agree"

    def to_json(self) -> dict[str, Any]:
        """JSON has no infinity: a relative error against a reference of zeros is null there."""
        document = asdict(self)
        for comparison in document["comparisons"]:
            if not math.isfinite(comparison["relative"]):
                comparison["relative"] = None
        return document


@dataclass(frozen=True)
class Tolerances:
    """From --rtol and --atol, each `VALUE` or `OUTPUT:VALUE`: |result - reference| <= atol + rtol * |reference|."""

    rtol: Mapping[str, float]
    atol: Mapping[str, float]

    def of(self, output: str) -> tuple[float, float] | None:
        """(rtol, atol) for an output; None if neither was given for it, and TOLERANCE holds."""
        rtol, atol = (table.get(output, table.get("")) for table in (self.rtol, self.atol))
        return None if rtol is None and atol is None else (rtol or 0.0, atol or 0.0)

    def check_outputs(self, outputs: Sequence[str]) -> None:
        """UsageError for a tolerance of an output that the model has not."""
        problems = [
            Problem(
                f"the model has no output {name!r}",
                f"{flag} {name}:{value:g}",
                "one of: " + ", ".join(map(repr, outputs)),
                "correct the name",
            )
            for flag, table in (("--rtol", self.rtol), ("--atol", self.atol))
            for name, value in table.items()
            if name and name not in outputs
        ]
        if problems:
            raise UsageError(problems)


def parse_tolerances(rtol: Sequence[str] = (), atol: Sequence[str] = ()) -> Tolerances:
    """UsageError for what is not a non-negative number."""
    tables = []
    for flag, texts in (("--rtol", rtol), ("--atol", atol)):
        table = {}
        for text in texts:
            name, _, number = text.rpartition(":")
            try:
                value = float(number)
            except ValueError:
                value = -1.0
            if not 0 <= value < float("inf"):
                raise UsageError(
                    Problem(
                        f"{text!r} is not a tolerance",
                        flag,
                        "a number >= 0, or OUTPUT:NUMBER",
                        f"{flag} 1e-3",
                    )
                )
            table[name] = value
        tables.append(table)
    return Tolerances(*tables)


def compare(expected: Arrays, actual: Arrays, tolerances: Tolerances | None = None) -> tuple[Comparison, ...]:
    """Every expected output against the actual one of that name."""
    return tuple(_compare(name, value, actual.get(name), tolerances) for name, value in expected.items())


def _compare(
    name: str, expected: np.ndarray, actual: np.ndarray | None, tolerances: Tolerances | None
) -> Comparison:
    dtype, shape = str(expected.dtype), tuple(expected.shape)
    if actual is None:
        return Comparison(name, dtype, shape, False, "missing")
    if tuple(actual.shape) != shape:
        return Comparison(name, dtype, shape, False, f"shape {list(actual.shape)}, expected {list(shape)}")
    if actual.dtype != expected.dtype:
        return Comparison(name, dtype, shape, False, f"dtype {actual.dtype}, expected {dtype}")
    if expected.dtype.kind in "iub":
        different = np.argwhere(actual != expected)
        if len(different) == 0:
            return Comparison(name, dtype, shape, True, "equal")
        worst = tuple(int(i) for i in different[0])
        return Comparison(name, dtype, shape, False, f"{len(different)} elements differ", worst=worst)
    if dtype not in TOLERANCE:
        return Comparison(name, dtype, shape, False, f"dtype {dtype} cannot be compared")
    return _compare_floats(name, dtype, expected.astype(np.float64), actual.astype(np.float64), tolerances)


def _compare_floats(
    name: str, dtype: str, expected: np.ndarray, actual: np.ndarray, tolerances: Tolerances | None
) -> Comparison:
    shape = tuple(expected.shape)
    if expected.size == 0:
        return Comparison(name, dtype, shape, True, "empty")
    same = (expected == actual) | (
        np.isnan(expected) & np.isnan(actual)
    )  # infinities and NaN must match exactly
    finite = np.isfinite(expected) & np.isfinite(actual)
    if not np.all(same | finite):
        worst = tuple(int(i) for i in np.argwhere(~(same | finite))[0])
        return Comparison(
            name, dtype, shape, False, f"{actual[worst]} where {expected[worst]} is expected", worst=worst
        )
    difference = np.where(finite, np.abs(np.where(finite, actual, 0) - np.where(finite, expected, 0)), 0.0)
    reference_norm = float(np.linalg.norm(np.where(finite, expected, 0)))
    difference_norm = float(np.linalg.norm(difference))
    relative = (
        difference_norm / reference_norm
        if reference_norm
        else (0.0 if difference_norm == 0 else float("inf"))
    )
    limits = tolerances.of(name) if tolerances is not None else None
    if limits is not None:
        bound = limits[1] + limits[0] * np.abs(np.where(finite, expected, 0))
        outside = int(np.count_nonzero(difference > bound))
        agrees, reason = outside == 0, f"{outside} elements beyond rtol {limits[0]:g}, atol {limits[1]:g}"
    else:
        limit = TOLERANCE[dtype]
        agrees, reason = relative <= limit, f"relative error {relative:.1e}, allowed {limit:g}"
    worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(difference)), shape))
    return Comparison(
        name,
        dtype,
        shape,
        agrees,
        reason,
        relative,
        float(difference.max()),
        float(difference.mean()),
        float(np.quantile(difference, 0.99)),
        worst,
    )


def judge(comparisons: tuple[Comparison, ...], inputs: str, *, engine_run: bool) -> Verdict:
    """The verdict on a set of comparisons. Nothing compared is not a pass."""
    if not comparisons:
        return Verdict("not comparable", "no output was compared", engine_run, inputs)
    wrong = [c for c in comparisons if not c.agrees]
    if wrong:
        reason = "; ".join(f"{c.output}: {c.reason}" for c in wrong)
        return Verdict("disagree", reason, engine_run, inputs, comparisons)
    if all(c.reason == "empty" for c in comparisons):
        return Verdict("not comparable", "every output is empty", engine_run, inputs, comparisons)
    worst = max(c.relative for c in comparisons)
    return Verdict("agree", f"largest relative error {worst:.1e}", engine_run, inputs, comparisons)


def verify_graphs(
    original: Model,
    rewritten: Model,
    feeds: Arrays,
    inputs: str,
    tolerances: Tolerances | None = None,
    expected: Arrays | None = None,
    io_types: Sequence[IoType] = (),
) -> Verdict:
    """The original against the TensorRT graph, both in onnxruntime on the CPU. The engine is not run.

    feeds: of all inputs of the original; those that were frozen are none of the rewritten graph's.
    expected: outputs to compare with instead of the original's, from the framework that the model comes from.

    Custom nodes that onnxruntime has not are expanded in the original, plugin nodes in the rewritten graph, from the
    fields that TensorRT will get. io_types: inputs and outputs that have another type in the rewritten graph.
    """
    if expected is None:
        try:
            expected = run(reference(original), feeds)
        except ConversionError as error:
            return Verdict("not comparable", f"the original: {error.problems[0].what}", False, inputs)
    try:
        inputs_left = {value.name for value in rewritten.proto.graph.input}
        left = to_engine({n: v for n, v in feeds.items() if n in inputs_left}, io_types)
        actual = to_model(run(expand(rewritten), left), io_types)
    except ConversionError as error:
        return Verdict("not comparable", f"the rewritten graph: {error.problems[0].what}", False, inputs)
    return judge(compare(expected, actual, tolerances), inputs, engine_run=False)


def generate_inputs(
    specs: Sequence[InputSpec], profile: Mapping[str, ShapeRange], bounds: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Seeded inputs at the profile's usual shapes: standard normal floats, integers 0 to 9, both booleans.

    bounds: by input, an integer that its integers have to stay below.
    UsageError for a shape that this machine's memory does not hold.
    """
    rng = np.random.default_rng(SEED)
    feeds = {}
    for spec in specs:
        shape = profile[spec.name].opt if spec.name in profile else tuple(d or 0 for d in spec.shape)
        try:
            feeds[spec.name] = _generate(rng, np.dtype(spec.dtype), shape, (bounds or {}).get(spec.name, 10))
        except (MemoryError, ValueError, OverflowError) as error:
            raise UsageError(
                Problem(
                    f"input {spec.name!r} is too large to be generated: {error}",
                    f"input {spec.name!r}, {'x'.join(map(str, shape))}",
                    "a usual shape of which this machine can hold the numbers",
                    "give a smaller usual shape with --shapes, or --no-verify",
                )
            ) from error
    return feeds


def _generate(
    rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...], bound: int
) -> np.ndarray:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, min(bound, 10), shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def load_expected(path: Path, outputs: Sequence[str]) -> dict[str, np.ndarray]:
    """The model's outputs by name from an .npz file. UsageError if one is missing, or is none of the model's."""
    arrays = load_arrays(path, "--expected")
    problems = []
    for name in outputs:
        if name not in arrays:
            what, have = f"no array for output {name!r}", ", ".join(map(repr, arrays)) or "nothing"
            expected = f"an array for each of {', '.join(map(repr, outputs))}"
            problems.append(Problem(what, f"--expected {path}", expected, f"it holds {have}: add it"))
    for name in arrays:
        if name not in outputs:
            what, expected = f"the model has no output {name!r}", "one of: " + ", ".join(map(repr, outputs))
            problems.append(Problem(what, f"--expected {path}", expected, "correct or remove the array"))
    if problems:
        raise UsageError(problems)
    return {name: arrays[name] for name in outputs}


def load_inputs(path: Path, specs: Sequence[InputSpec]) -> dict[str, np.ndarray]:
    """Inputs by name from an .npz file. UsageError if they do not fit the model's inputs."""
    where = f"--inputs {path}"
    feeds = load_arrays(path, "--inputs")
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
        fits = len(value.shape) == len(spec.shape) and all(
            d is None or d == size for d, size in zip(spec.shape, value.shape, strict=True)
        )
        if not fits or str(value.dtype) != spec.dtype:
            what = f"input {spec.name!r} is {value.dtype}{list(value.shape)}"
            dims = ", ".join(
                str(d) if d is not None else n or "?" for d, n in zip(spec.shape, spec.names, strict=True)
            )
            problems.append(
                Problem(what, where, f"{spec.dtype}[{dims}]", "save an array of that type and shape")
            )
    if problems:
        raise UsageError(problems)
    return {spec.name: feeds[spec.name] for spec in specs}
