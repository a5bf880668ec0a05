"""Reads optimisation profiles from the command line: --shapes, and trtexec's three flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.shape_forms import check_form, is_trtexec_form
from trtsmith.importers.dtypes import NUMBERS, dtype_name
from trtsmith.importers.problem import Problem

if TYPE_CHECKING:
    import onnx  # not when run: `trtsmith doctor` has to work where it is missing

Sizes = tuple[int, ...]

MOST_AXES = 8
"""Dims::MAX_DIMS of NvInferRuntimeBase.h."""

_FORM = "NAME=1x3x320x320:1x3x640x640:8x3x1280x1280 (min:opt:max), or one shape for all three"

_TRTEXEC_FORM = "NAME:1x3x640x640[,NAME:...]"


@dataclass(frozen=True)
class ShapeRange:
    """The smallest, usual and largest shape of one input."""

    min: Sizes
    opt: Sizes
    max: Sizes

    def __str__(self) -> str:
        parts = ["x".join(map(str, sizes)) for sizes in (self.min, self.opt, self.max)]
        return parts[0] if len(set(parts)) == 1 else ":".join(parts)


@dataclass(frozen=True)
class InputSpec:
    """A graph input: dtype as numpy names it; None in shape for a dynamic dimension, with its name in `names`."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    names: tuple[str, ...]


def input_problems(proto: onnx.ModelProto) -> Iterator[Problem]:
    """Lists the model's inputs that TensorRT cannot have, whatever their shapes."""
    for value in _real_inputs(proto):
        where = f"input {value.name!r}"
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type"):
            expected = "tensor inputs; TensorRT takes no sequences, maps or optionals"
            yield Problem(f"{where} is not a tensor", where, expected, "export the model with tensor inputs")
        elif tensor.elem_type == NUMBERS["object"]:
            fix = "export the model without that input, or with numbers"
            yield Problem(f"{where} has strings", where, "numbers or booleans", fix)
        elif tensor.elem_type in (NUMBERS["complex64"], NUMBERS["complex128"]):
            fix = "export the model with the real and the imaginary parts as inputs of their own"
            yield Problem(f"{where} has complex numbers", where, "real numbers or booleans", fix)
        elif not tensor.HasField("shape"):
            what = f"{where} has no shape, not even a number of dimensions"
            fix = f"export the model with a shape for {value.name!r}; its dimensions may be dynamic"
            yield Problem(what, where, "a shape for every input", fix)
        elif len(tensor.shape.dim) > MOST_AXES:
            expected = f"at most {MOST_AXES}, as TensorRT's tensors have them"
            fix = (
                "write the model with fewer: leave out dimensions of one element, and merge neighbouring ones"
            )
            yield Problem(f"{where} has {len(tensor.shape.dim)} dimensions", where, expected, fix)


def graph_inputs(proto: onnx.ModelProto) -> tuple[InputSpec, ...]:
    """Returns the model's inputs, without initializers that old models list among them. ConversionError: input_problems."""
    problems = tuple(input_problems(proto))
    if problems:
        raise ConversionError(problems)
    return tuple(map(spec_of, _real_inputs(proto)))


def spec_of(value: onnx.ValueInfoProto) -> InputSpec:
    """Describes a tensor with a known number of dimensions, of inputs or outputs."""
    tensor = value.type.tensor_type
    return InputSpec(
        value.name,
        dtype_name(tensor.elem_type),
        tuple(
            d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim
        ),
        tuple(d.dim_param for d in tensor.shape.dim),
    )


def _real_inputs(proto: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    initializers = {tensor.name for tensor in proto.graph.initializer}
    return (value for value in proto.graph.input if value.name not in initializers)


def parse_shapes(
    shapes: Sequence[str] = (), minimum: str = "", optimum: str = "", maximum: str = ""
) -> dict[str, ShapeRange]:
    """Parses shape ranges by input name from --shapes flags and from --minShapes, --optShapes, --maxShapes.

    A --shapes flag is of either form of `trtsmith.converter.base.options.shape_forms`.
    UsageError for anything that is not of the form, for min > opt or opt > max, and for ranks that differ.
    """
    ranges: dict[str, ShapeRange] = {}
    for text in shapes:
        check_form(text)
        if is_trtexec_form(text):
            for name, shape in _trtexec("--shapes", text).items():
                _add(ranges, name, ShapeRange(shape, shape, shape), "--shapes", text)
            continue
        name, _, value = text.rpartition("=")
        parts = value.split(":")
        if not name or len(parts) not in (1, 3):
            raise _malformed("--shapes", text, _FORM)
        sizes = [_sizes(part, "--shapes", text) for part in (parts if len(parts) == 3 else parts * 3)]
        _add(ranges, name, ShapeRange(*sizes), "--shapes", text)
    flags = {"--minShapes": minimum, "--optShapes": optimum, "--maxShapes": maximum}
    tables = {flag: _trtexec(flag, text) for flag, text in flags.items() if text}
    for name in {name: None for table in tables.values() for name in table}:
        given = {flag: table[name] for flag, table in tables.items() if name in table}
        # As trtexec does: what is left out is taken from what is there, the optimum first.
        fallback = given.get("--optShapes") or given.get("--maxShapes") or given["--minShapes"]
        chosen = [given.get(flag, fallback) for flag in flags]
        _add(ranges, name, ShapeRange(*chosen), " ".join(given), name)
    return ranges


def check_ranges(proto: onnx.ModelProto, ranges: Mapping[str, ShapeRange]) -> None:
    """Raises UsageError for ranges of unknown inputs, or that contradict the model; inputs may lack one.

    A model with inputs that TensorRT cannot have is not held to any: there is more to say of it.
    """
    if ranges and not any(True for _ in input_problems(proto)):
        specs = graph_inputs(proto)
        profile_for(specs, ranges, optional=[spec.name for spec in specs])


def profile_for(
    inputs: Sequence[InputSpec],
    ranges: Mapping[str, ShapeRange],
    *,
    optional: Collection[str] = (),
    usual: Callable[[], Mapping[str, Sizes]] = dict,
) -> dict[str, ShapeRange]:
    """Makes the profile: a range for every dynamic input. UsageError lists every input that lacks or contradicts one.

    optional: names of dynamic inputs that need none. usual: gives shapes of the user's inputs, to suggest.
    """
    problems = []
    profile = {}
    known = {spec.name: spec for spec in inputs}
    for name in ranges:
        if name not in known:
            problems.append(
                Problem(
                    f"the model has no input {name!r}",
                    f"shapes of {name!r}",
                    "one of: " + ", ".join(map(repr, known)),
                    f"--shapes {suggest(having[0], inputs)}"
                    if (having := [spec for spec in inputs if name in spec.names])
                    else "correct the name",
                )
            )
    for spec in inputs:
        given = ranges.get(spec.name)
        if None not in spec.shape:
            if given is not None and any(s != spec.shape for s in (given.min, given.opt, given.max)):
                problems.append(
                    Problem(
                        f"input {spec.name!r} has the fixed shape {_text(spec)}",
                        f"--shapes {spec.name}={given}",
                        "that shape, or no flag",
                        f"remove the flag, or export the model with dynamic dimensions: {_export(spec, given)}",
                    )
                )
            continue
        if given is None and spec.name in optional:
            continue
        if given is None:
            shape = usual().get(spec.name)
            likely = None if shape is None else ShapeRange(shape, shape, shape)
            problems.append(
                Problem(
                    f"input {spec.name!r} is dynamic and has no shapes",
                    f"input {spec.name!r}, {_text(spec)}",
                    "the smallest, the usual and the largest shape: " + _FORM,
                    f"--shapes {_flag(spec, likely) or suggest(spec, inputs, ranges)}",
                )
            )
            continue
        fault = _fits(spec, given)
        if fault:
            others = {name: one for name, one in ranges.items() if name != spec.name}
            problems.append(
                Problem(
                    f"the shapes of input {spec.name!r} do not fit: {fault}",
                    f"--shapes {spec.name}={given}",
                    _text(spec),
                    f"--shapes {_flag(spec, _meant(spec, given)) or suggest(spec, inputs, others)}",
                )
            )
        profile[spec.name] = given
    problems += [] if problems else _unequal(inputs, profile)
    if problems:
        raise UsageError(problems)
    return profile


def _unequal(inputs: Sequence[InputSpec], profile: Mapping[str, ShapeRange]) -> Iterator[Problem]:
    """Dimensions of one name that have several usual sizes: TensorRT takes them to be equal."""
    for spec, name, told in unequal_sizes(inputs, {name: given.opt for name, given in profile.items()}):
        yield Problem(
            f"{told}, at the usual sizes",
            f"--shapes {spec.name}={profile[spec.name]}",
            f"one size of {name!r} in all inputs",
            f"--shapes {suggest(spec, inputs, {n: r for n, r in profile.items() if n != spec.name})}",
        )


def unequal_sizes(
    inputs: Sequence[InputSpec], shapes: Mapping[str, Sizes]
) -> Iterator[tuple[InputSpec, str, str]]:
    """Finds dimensions that have another size than that of the same name in an earlier input.

    Yields the input, the dimension's name, and both sizes in words. shapes: of dynamic inputs, by name.
    """
    seen: dict[str, tuple[str, int]] = {}
    for spec in inputs:
        for name, size in zip(spec.names, shapes.get(spec.name, ()), strict=False):
            first, known = seen.setdefault(name, (spec.name, size))
            if name and size != known:
                where = f"{known} in input {first!r} and {size} in input {spec.name!r}"
                yield spec, name, f"dimension {name!r} is {where}"


def with_shared_ranges(
    inputs: Sequence[InputSpec], profile: Mapping[str, ShapeRange]
) -> dict[str, ShapeRange]:
    """Narrows dimensions of one name to the sizes that all inputs with it have. Their usual sizes are equal."""
    given = [(spec, profile[spec.name]) for spec in inputs if spec.name in profile]
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    for spec, sizes in given:
        for name, low, high in zip(spec.names, sizes.min, sizes.max, strict=True):
            least[name] = max(low, least.get(name, low))
            most[name] = min(high, most.get(name, high))

    def shared(names: Sequence[str], sizes: Sizes, known: Mapping[str, int]) -> Sizes:
        return tuple(known[name] if name else size for name, size in zip(names, sizes, strict=True))

    return dict(profile) | {
        spec.name: ShapeRange(shared(spec.names, r.min, least), r.opt, shared(spec.names, r.max, most))
        for spec, r in given
    }


def suggest(
    spec: InputSpec, inputs: Sequence[InputSpec] = (), ranges: Mapping[str, ShapeRange] | None = None
) -> str:
    """Suggests a flag value for a shell: 1 to 8 for the batch, 320 to 1280 for the last two dimensions of four, else 1 to
    512.

    A dimension whose name another of the inputs has gets that one's sizes: those in `ranges`, else those suggested for the
    first input that has it.
    """
    known: dict[str, Sizes] = {}
    given = [(other, _given_sizes(other, (ranges or {}).get(other.name))) for other in inputs]
    for other, columns in sorted(given, key=lambda one: not one[1]):
        for name, sizes in zip(other.names, columns or _usual_sizes(other), strict=True):
            if name:
                known.setdefault(name, sizes)
    dims = [
        known.get(name or "", sizes) if dim is None else sizes
        for dim, name, sizes in zip(spec.shape, spec.names, _usual_sizes(spec), strict=True)
    ]
    shapes = ":".join("x".join(str(sizes[choice]) for sizes in dims) for choice in range(3))
    return quote(f"{spec.name}={shapes}")


def _given_sizes(spec: InputSpec, given: ShapeRange | None) -> list[Sizes]:
    """For each dimension the sizes that the user gave; none if they are not of the input's rank."""
    if given is None or len(given.min) != len(spec.shape):
        return []
    return list(zip(given.min, given.opt, given.max, strict=True))


def _usual_sizes(spec: InputSpec) -> list[Sizes]:
    """For each dimension the smallest, the usual and the largest size.

    The batch comes first, or second behind the layers of a recurrent state (2 x batch x 128).
    """
    shape = spec.shape
    state = len(shape) == 3 and (shape[0] or 1) > 1 and shape[1] is None
    usual: list[Sizes] = []
    for axis, dim in enumerate(shape):
        image = len(shape) == 4 and axis >= 2
        batch = axis == int(state)
        ranging = (1, 1, 8) if batch else (320, 640, 1280) if image else (1, 128, 512)
        usual.append(ranging if dim is None else (dim,) * 3)
    return usual


def _text(spec: InputSpec) -> str:
    dims = zip(spec.shape, spec.names, strict=True)
    return f"{spec.dtype}[" + ", ".join(str(d) if d is not None else n or "?" for d, n in dims) + "]"


def _fits(spec: InputSpec, given: ShapeRange) -> str:
    for sizes in (given.min, given.opt, given.max):
        if len(sizes) != len(spec.shape):
            return f"rank {len(sizes)}, but the input has rank {len(spec.shape)}"
        for axis, (size, dim) in enumerate(zip(sizes, spec.shape, strict=True)):
            if dim is not None and size != dim:
                return f"dimension {axis} is {size}, but the model fixes it at {dim}"
    for axis, dim in enumerate(spec.shape):
        if dim is None and 0 in (given.opt[axis], given.max[axis]):
            return f"dimension {axis} is 0 in the usual or the largest shape, which then has no elements"
    return ""


def _meant(spec: InputSpec, given: ShapeRange) -> ShapeRange | None:
    """A range that fits the input and that the given one stands for; None if no fixed dimension confirms one."""
    rank, fixed = len(spec.shape), [dim or 1 for dim in spec.shape]
    ways: list[Callable[[Sizes], Sizes]] = [
        lambda sizes: tuple(size or 1 for size in sizes),
        lambda sizes: (*sizes[:1], *sizes[-1:], *sizes[1:-1]),  # channels last
        lambda sizes: (*sizes[:1], *sizes[2:], *sizes[1:2]),
        lambda sizes: (1, *sizes),
        lambda sizes: (*sizes, *sizes[-1:]) if rank == 4 else (),  # square images
        lambda sizes: (*fixed[:2], *(2 * sizes)[:2]) if rank == 4 and len(sizes) < 3 else (),
    ]
    for way in ways if any(spec.shape) else ways[:1]:
        meant = ShapeRange(way(given.min), way(given.opt), way(given.max))
        if not _fits(spec, meant):
            return meant
    return None


def _flag(spec: InputSpec, sizes: ShapeRange | None) -> str:
    """The flag's value for a shell; "" without sizes."""
    return quote(f"{spec.name}={sizes}") if sizes is not None else ""


def _export(spec: InputSpec, given: ShapeRange) -> str:
    """The argument of PyTorch's exporter that makes the dimensions dynamic of which other sizes are given."""
    ends = (given.min, given.opt, given.max)
    other = [
        axis for axis, dim in enumerate(spec.shape) if any(sizes[axis : axis + 1] != (dim,) for sizes in ends)
    ]
    names = ", ".join(f'{axis}: "{f"dim_{axis}" if axis else "batch"}"' for axis in other)
    return f'torch.onnx.export(..., dynamo=True, dynamic_shapes={{"{spec.name}": {{{names}}}}})'


def _sizes(text: str, flag: str, whole: str, form: str = _FORM) -> Sizes:
    parts = text.lower().split("x") if text else []
    if any(not part.isascii() or not part.isdigit() or len(part) > 18 for part in parts):
        raise _malformed(flag, whole, form)
    return tuple(int(part) for part in parts)


def _trtexec(flag: str, text: str) -> dict[str, Sizes]:
    table = {}
    for item in text.split(","):
        name, _, value = item.rpartition(":")
        if not name or not value:
            raise _malformed(flag, text, _TRTEXEC_FORM)
        if name in table:
            raise _twice(name, flag, text)
        table[name] = _sizes(value, flag, text, _TRTEXEC_FORM)
    return table


def _add(ranges: dict[str, ShapeRange], name: str, given: ShapeRange, flag: str, text: str) -> None:
    if name in ranges:
        raise _twice(name, flag, text)
    if len({len(given.min), len(given.opt), len(given.max)}) != 1:
        ranks = ", ".join(f"{len(s)} in {end}" for end, s in vars(given).items())
        what = f"the shapes of {name!r} have different numbers of dimensions: {ranks}"
        raise UsageError(
            what, f"{flag} {text}", "min, opt and max of the same rank", "give each the same dimensions"
        )
    if not all(a <= b <= c for a, b, c in zip(given.min, given.opt, given.max, strict=True)):
        what = f"the shapes of {name!r} contradict each other"
        expected = "min <= opt <= max in every dimension"
        columns = map(sorted, zip(given.min, given.opt, given.max, strict=True))
        ordered = ShapeRange(*zip(*columns, strict=True))
        raise UsageError(what, f"{flag} {text}", expected, f"--shapes {quote(f'{name}={ordered}')}")
    ranges[name] = given


def _malformed(flag: str, text: str, form: str) -> UsageError:
    name, _, value = text.rpartition("=")
    name, value = name or "NAME", re.sub(r"[()\[\]\s]", "", value)
    what, fix = f"{text!r} is not a shape", f"{flag} {form.split(' (')[0].replace('NAME', name)}"
    if wrong := next((size for size in re.split("[xX:,]", value) if not re.fullmatch("[0-9]*", size)), ""):
        what += f": {wrong!r} is no size"
    # 1x3,2x3,8x3 is a range, and 1,3,64 a shape
    between = "," if "x" in value.lower() and ":" not in value else ":"
    parts = [part.replace(",", "x") for part in value.split(between)]
    if all(re.fullmatch(r"[0-9]{1,9}(?:[xX][0-9]{1,9})*", part) for part in parts):
        if len(parts) == 2:
            what += ": a range has three, and two are given"
            parts.insert(1, parts[1])
        if len(parts) in (1, 3) and len({part.lower().count("x") for part in parts}) == 1:
            condition = "" if "x" in parts[0].lower() else f", if {name!r} is an input of one dimension"
            fix = f"{flag} {name}={':'.join(parts)}{condition}"
    return UsageError(what, f"{flag} {text}", form, fix)


def _twice(name: str, flag: str, text: str) -> UsageError:
    what = f"shapes of {name!r} are given twice"
    return UsageError(what, f"{flag} {text}", "one flag for each input", "remove one")
