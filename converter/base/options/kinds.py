"""Defines kinds of options: how the command line, Python and a zoo give a value, and the words for expected values.

A Kind says all of this in one place. An option's kind follows from its annotation (KINDS), or its Flag names one.
Imports neither numpy nor onnx at once: `trtsmith --help` and `doctor` need flags, and work where they are missing.
"""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from numbers import Real
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar, get_args

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.option_values import EXPECTED, is_cost, is_count, is_seconds
from trtsmith.converter.base.options.actions import AddUp
from trtsmith.converter.base.options.gpu_names import device_of, parse_targets
from trtsmith.converter.base.progress import Progress as Progress

if TYPE_CHECKING:
    import numpy as np

    from trtsmith.converter.base.arrays import ArraySource
    from trtsmith.converter.base.options.shapes import ShapeRange

T = TypeVar("T")
StrPath = str | os.PathLike[str]
Paths = StrPath | Sequence[StrPath]
Arrays = StrPath | Mapping[str, Any]
"""An .npz file, or by name arrays, or what numpy makes arrays of."""

Samples = Arrays | Sequence[Arrays]
Texts = str | Sequence[str]
Freeze = Sequence[str] | Mapping[str, Any]
Ranges = Texts | Mapping[str, int | str | Sequence[int] | Sequence[Sequence[int]]]
"""Texts as --shapes and --values take them; or by name a range, or its text."""

Settings = Mapping[str, Any]
"""Options by name."""

Device = int | str | Any
"""The number of a GPU, or what PyTorch has: "cuda", "cuda:1", a torch.device."""

Tolerance = float | Texts | Mapping[str, float]
References = str | Callable[..., Any] | Mapping[str, str | Callable[..., Any]]

PrecisionName = Literal[
    "", "fp32", "fp16", "bf16", "int8", "fp8", "int8+fp16", "int8+bf16", "fp8+fp16", "fp8+bf16"
]
EnginePrecision = Literal["", "fp32", "tf32", "fp16", "fp16-sums", "bf16", "int8", "fp8"]
AccumulateName = Literal["", "auto", "fp32", "fp16"]
FlavourName = Literal["auto", "tensorrt", "tensorrt_rtx"]
VerifyMode = Literal["auto", "graph", "engine"]
ExecutorName = Literal["auto", "tensorrt", "kernels", "emulation"]
CudaGraphMode = Literal["both", "off", "on"]
SpecializationMode = Literal["eager", "lazy", "none"]
GraphRuntime = Literal["", "onnxruntime"]
ServerName = Literal["triton", "deepstream", "onnxruntime"]


@dataclass(frozen=True)
class OptionKind:
    """All that is known of a type of option.

    annotation: of the API. expected, example: in words and as Python writes it, for a value of another type.
    takes:   whether Python may give this value.
    default: of an option that is not given and declares no other.
    flag:    arguments of argparse's add_argument.
    read:    makes a stage's value of Python's or argparse's. Its second argument is the option's name, for messages.
    commas:  whether one text lists several values.
    named:   what stands between a name and its value, where values belong to names; else "".
    npz:     whether a file of it is one of arrays.
    sizes:   of a range of sizes or values, the example of one of its parts in a zoo; else "".
    meant:   how Python writes what a value of another type says plainly; "" where it says nothing.
    """

    annotation: str = ""
    expected: str = ""
    example: str = ""
    takes: Callable[[Any], bool] = lambda value: True
    default: Any = None
    flag: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[Any, str], Any] = lambda value, name: value
    commas: bool = False
    named: str = ""
    npz: bool = False
    sizes: str = ""
    meant: Callable[[Any], str] = lambda value: ""


class Flag:
    """The command-line form of an option, where it does not follow from its kind.

    help:    {} in it is what the command says of the option.
    common:  whether the short help of a command with many flags shows it; --help-all shows all.
    default: None: that of the kind, or of the dataclass's field.
    alone:   a name that flags share of which a command line may have one.
    kind:    None: that of the annotation. keyword: the option's name, where the field has another.
    more:    arguments of argparse's add_argument, in the place of those that the kind asks for.
    """

    def __init__(
        self,
        help: str,
        metavar: str = "",
        *names: str,
        default: Any = None,
        alone: str = "",
        common: bool = False,
        kind: OptionKind | None = None,
        keyword: str = "",
        **more: Any,
    ) -> None:
        self.names, self.default, self.alone, self.common = names, default, alone, common
        self.kind, self.keyword = kind, keyword
        self.arguments = {"help": help, **({"metavar": metavar} if metavar else {}), **more}


IN_PYTHON = Flag("")
"""Of an option that the command line does not have."""


def _number(read: Callable[[str], Any], allowed: Callable[[object], bool]) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        try:
            value = read(text)
        except ValueError:
            value = None
        if not allowed(value):
            raise ArgumentTypeError(f"{text!r} is not {EXPECTED[allowed]}")
        return value

    return number


positive_int = _number(int, is_count)
positive_seconds = _number(float, is_seconds)


def _not_negative(text: str) -> float:
    """0 or a positive number that a clock can count to."""
    return 0.0 if text.strip() == "0" else float(positive_seconds(text))


def _parsed(parse: Callable[[str], T]) -> Callable[[str], T]:
    """As argparse calls it: it shows the message of an ArgumentTypeError as it is."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except UsageError as error:
            (problem,) = error.problems
            raise ArgumentTypeError(f"{problem.what}: {problem.expected}; {problem.fix}") from error

    return parsed


def commas(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def path_of(given: StrPath | None) -> Path | None:
    return None if given is None else Path(given)


def paths_of(given: Paths) -> tuple[Path, ...]:
    return tuple(map(Path, [given] if isinstance(given, (str, os.PathLike)) else given))


def texts_of(given: Texts) -> tuple[str, ...]:
    """Returns several texts; a single text stands for itself, not for its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def targets_of(given: Texts) -> tuple[str, ...]:
    """Returns GPUs by their compute capability, sm89, however they were named: "RTX 4090", or "sm86,sm89"."""
    return tuple(dict.fromkeys(target for text in texts_of(given) for target in parse_targets(text)))


def arrays_of(given: Arrays | None, name: str) -> ArraySource | None:
    """Returns an .npz file's path, or arrays of numpy. name: of the argument, for messages."""
    if given is None or isinstance(given, (str, os.PathLike)):
        return path_of(given)
    return {str(key): _array(value, f"{name}[{key!r}]") for key, value in given.items()}


def _array(value: Any, where: str) -> np.ndarray:
    """An array of numbers. UsageError for anything else."""
    import numpy as np

    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        said = f"{where} holds {array.dtype}, not numbers" if array.dtype.hasobject else ""
    except Exception as error:  # of whatever library the value is
        array, said = np.empty(0), f"numpy cannot make an array of {where}: {error}"
    if said:
        raise UsageError(said, where, "an array of numbers", "give a numpy array")
    return array


def samples_of(given: Samples, name: str = "calibration") -> tuple[ArraySource, ...]:
    several = given if isinstance(given, (list, tuple)) else (given,)
    return tuple(source for one in several if (source := arrays_of(one, name)) is not None)


_ENDS = ("min", "opt", "max")


def ranges_of(given: Any, between: str, form: str) -> list[str]:
    """Reads NAME=MIN:OPT:MAX, or one part for all three; also by "min", "opt" and "max", as other tools have it. between:
    separates the numbers of a part. form: of a part.
    """
    if not isinstance(given, Mapping):
        return [*texts_of(given or ())]
    texts = []
    for name, range_ in given.items():
        if isinstance(range_, Mapping) and range_.keys() == {*_ENDS}:
            range_ = [range_[end] for end in _ENDS]
        if isinstance(range_, (str, Mapping)) or not isinstance(range_, Iterable):
            texts.append(f"{name}={range_}")
            continue
        several = any(between in part if _is_text(part) else isinstance(part, Sized) for part in range_)
        parts: Iterable[Any] = range_ if several else [range_]
        joined = (form.format(between.join(map(str, one))) if _is_list(one) else str(one) for one in parts)
        texts.append(f"{name}={':'.join(joined)}")
    return texts


def _is_list(part: Any) -> bool:
    """Whether it is a list of sizes, of any kind, and no text of them."""
    return isinstance(part, Iterable) and not _is_text(part)


def profiles_of(given: Any) -> list[dict[str, ShapeRange]]:
    """Returns the shapes of each optimization profile, at least one.

    given: all options: in Python `shapes` may be a list of dicts; the command line has --profile and trtexec's flags, too.
    """
    from trtsmith.converter.base.options.shapes import parse_shapes

    several = given.shapes if isinstance(given.shapes, (list, tuple)) else ()
    if any(isinstance(one, Mapping) for one in several):
        return [parse_shapes(ranges_of(one, "x", "{}")) for one in several]
    return [
        parse_shapes(
            ranges_of(one.shapes, "x", "{}"),
            *(getattr(one, f"{end}Shapes", "") for end in ("min", "opt", "max")),
        )
        for one in (*getattr(given, "profiles", ()), given)
    ]


def shapes_of(given: Any) -> dict[str, ShapeRange]:
    """Returns the requested shapes by input, where there is one optimization profile."""
    first, *others = profiles_of(given)
    if others:
        what = "several optimization profiles are given"
        expected = "one: convert, check and rewrite take several"
        raise UsageError(what, "--shapes", expected, "give the shapes of one profile")
    return first


def values_of(given: Ranges | None, name: str = "values") -> dict[str, ShapeRange]:
    from trtsmith.converter.base.options.shape_tensors import parse_values

    return parse_values(ranges_of(given, ",", "[{}]"))


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _several(takes: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """One, or a collection of them."""
    return lambda value: (
        takes(value) or (isinstance(value, (list, tuple, set, frozenset)) and all(map(takes, value)))
    )


def _mebibytes(value: Any) -> str:
    """The number of MiB that a text such as "4GB" or "512" says."""
    found = (
        re.fullmatch(r"(\d+(?:\.\d+)?) *([MG]?)(?:i?B)?", value, re.IGNORECASE) if _is_text(value) else None
    )
    return f"{float(found[1]) * (1024 if found[2].upper() == 'G' else 1):.0f}" if found else ""


def _count_of_mebibytes(text: str) -> int:
    try:
        return int(positive_int(text))
    except ArgumentTypeError as error:
        meant = _mebibytes(text)
        raise ArgumentTypeError(f"{error}" + f"; did you mean {meant}?" * bool(meant)) from None


def gpu_number(device: Device) -> int | None:
    """Returns the number of a GPU, of "cuda" 0; None for another device and anything else."""
    if isinstance(device, SupportsIndex):
        return index(device)
    found = re.fullmatch(r"cuda(?::(\d+))?", str(device))
    return int(found[1] or 0) if found else None


_REPEATED: Mapping[str, Any] = {"action": "append", "default": []}
_FILES = {**_REPEATED, "type": Path}
_TEXTS = _several(_is_text)

TEXT = OptionKind("str", "a text", '"text"', _is_text, "")
TEXTS = OptionKind(
    "Texts",
    "a text, or a list of texts",
    '["a", "b"]',
    _TEXTS,
    (),
    _REPEATED,
    lambda value, name: texts_of(value),
)
WORDS = replace(TEXTS, flag={"type": commas, "action": AddUp}, commas=True)
"""Texts that are one word of a command line, with commas."""

TARGETS = replace(
    WORDS,
    example='"sm86,sm89", or ["sm86", "sm89"]',
    flag={"type": _parsed(parse_targets), "action": AddUp},
    read=lambda value, name: targets_of(value),
)
DEVICE = replace(
    TEXT,
    flag={"type": lambda text: text and _parsed(device_of)(text)},
    read=lambda value, name: value and device_of(value),
)
NUMBER = OptionKind("int", "a whole number", "4", lambda value: isinstance(value, Real), flag={"type": int})
COUNT = replace(NUMBER, flag={"type": positive_int})
MEBIBYTES = replace(
    COUNT,
    flag={"type": _count_of_mebibytes},
    expected="a whole number of MiB",
    example="4096",
    meant=_mebibytes,
)
SECONDS = OptionKind(
    "float", "a number", "1.5", lambda value: isinstance(value, Real), flag={"type": positive_seconds}
)
DURATION = replace(SECONDS, flag={"type": _not_negative})
COST = replace(SECONDS, flag={"type": _number(float, is_cost)})
FILE = OptionKind(
    "StrPath",
    "a path",
    '"folder/file"',
    _is_path,
    flag={"type": Path},
    read=lambda value, name: path_of(value),
)
FILES = OptionKind(
    "Paths",
    "a path, or a list of paths",
    '["folder/file"]',
    _several(_is_path),
    (),
    _FILES,
    lambda value, name: paths_of(value),
)
SPECS = replace(FILES, flag=_REPEATED)
"""Files, folders, or names of modules."""

SHAPES = OptionKind(
    "Ranges",
    "by the input's name one range or three, or texts as the flag takes them",
    '{"x": [(1, 4), (2, 4), (8, 4)]}, or "x=1x4:2x4:8x4"',
    lambda value: _TEXTS(value) or _several(lambda one: isinstance(one, Mapping))(value),
    flag=_REPEATED,
    read=lambda value, name: shapes_of(Namespace(shapes=value)),
    named="=",
    sizes="[1, 3, 64, 64]",
)
VALUES = replace(
    SHAPES,
    example='{"sizes": [[1, 1], [2, 3], [8, 8]]}, or "sizes=[1,1]:[2,3]:[8,8]"',
    read=values_of,
    sizes="[1, 1]",
)
FREEZE = OptionKind(
    "Freeze",
    "values by the input's name, or texts as the flag takes them",
    '{"axes": [0, 1]}, or "axes=[0,1]"',
    lambda value: _TEXTS(value) or isinstance(value, Mapping),
    (),
    _REPEATED,
    lambda value, name: value if isinstance(value, Mapping) else texts_of(value),
    named="=",
)
ARRAYS = OptionKind(
    "Arrays",
    "the path of an .npz file, or a dict of arrays by name",
    '{"x": array}',
    lambda value: _is_path(value) or isinstance(value, Mapping),
    flag={"type": Path},
    read=arrays_of,
    npz=True,
)


_PRECISIONS = {
    **dict.fromkeys(("float32", "float", "single"), "fp32"),
    **dict.fromkeys(("float16", "half"), "fp16"),
    "bfloat16": "bf16",
    **dict.fromkeys(("float8", "float8_e4m3fn"), "fp8"),
}
"""By alias, as PyTorch and numpy have it, the precision."""


def precision_of(text: str) -> str:
    """ "fp16" for "half", "float16" or "FP16", "int8+fp16" for "fp16,int8"; what is not known stays as it is."""
    parts = [part.strip().lower() for part in re.split("[,+]", text)]
    named = [_PRECISIONS.get(part, part) for part in parts]
    plain = "+".join(sorted(named, key=lambda part: part not in ("int8", "fp8")))
    return plain if plain in (*get_args(PrecisionName), *get_args(EnginePrecision)) else text


def _precision(annotation: str, literal: Any) -> OptionKind:
    """One of the precisions of a Literal, or an alias of it."""
    named = _aliased(_choice(annotation, literal), precision_of)
    return replace(named, meant=lambda value: precision_meant(value, named.flag["choices"]))


def precision_meant(value: Any, choices: Sequence[str]) -> str:
    """The precision of a type of PyTorch or numpy, such as torch.float16, as Python writes it; "" if it is no choice."""
    precision = precision_of(str(getattr(value, "__name__", value)).rpartition(".")[2])
    return f'"{precision}"' if precision in choices else ""


def _choice(annotation: str, literal: Any) -> OptionKind:
    """One of the texts of a Literal; "" is one that the command line does not have."""
    texts = tuple(filter(None, get_args(literal)))
    expected, example = f"one of: {', '.join(texts)}", f'"{texts[0]}"'
    return replace(TEXT, annotation=annotation, expected=expected, example=example, flag={"choices": texts})


def _aliased(choice: OptionKind, of: Callable[[str], str]) -> OptionKind:
    """The choice, of whose texts some have other names. of: the text for a name."""
    return replace(choice, flag={**choice.flag, "type": of}, read=lambda value, name: of(value))


def _verified(value: Any) -> str:
    """What a bool says of `verify`."""
    return {True: '"auto"', False: "None"}[value] if isinstance(value, bool) else ""


_FLAVOURS = {"trt": "tensorrt", "rtx": "tensorrt_rtx"}
"""By extra of this package, the flavour that it installs."""


def flavour_of(text: str) -> str:
    """ "tensorrt" for "trt", "tensorrt_rtx" for "rtx"; what is not known stays as it is."""
    return _FLAVOURS.get(text.lower(), text)


SWITCH = OptionKind("bool", default=False, flag={"action": "store_true"})
FLAVOUR = _aliased(_choice("FlavourName", FlavourName), flavour_of)

_KINDS = (
    *(SWITCH, COUNT, SECONDS, TEXT, FILE, FILES, TEXTS, ARRAYS, SHAPES, FREEZE, FLAVOUR),
    replace(
        ARRAYS, annotation="Samples", takes=_several(ARRAYS.takes), default=(), flag=_FILES, read=samples_of
    ),
    OptionKind("Mapping[str, str]", flag=_REPEATED, named="="),
    OptionKind(
        "Settings",
        "a dict of options of `convert`",
        '{"precision": "fp16"}',
        lambda value: isinstance(value, Mapping),
    ),
    OptionKind(
        "Device",
        "the number of a GPU, or its name in PyTorch",
        '0, or "cuda:0"',
        lambda value: gpu_number(value) is not None,
    ),
    OptionKind(
        "Tolerance",
        "a number, or numbers by the output's name",
        '1e-3, or {"y": 1e-3}',
        lambda value: _TEXTS(value) or isinstance(value, (Real, Mapping)),
        flag=_REPEATED,
        named=":",
    ),
    OptionKind(
        "References",
        "a function or its name, or functions by operator",
        '"my_model:compute", or {"MyOp": compute}',
        lambda value: _TEXTS(value) or callable(value) or isinstance(value, Mapping),
        flag=_REPEATED,
        named="=",
    ),
    OptionKind("Progress", "a function of a line of text", "print", callable),
    _precision("PrecisionName", PrecisionName),
    _precision("EnginePrecision", EnginePrecision),
    _choice("AccumulateName", AccumulateName),
    replace(_choice("VerifyMode", VerifyMode), meant=_verified),
    _choice("ExecutorName", ExecutorName),
    _choice("CudaGraphMode", CudaGraphMode),
    _choice("SpecializationMode", SpecializationMode),
    *(
        _aliased(_choice(name, literal), lambda text: "onnxruntime" if text.lower() == "ort" else text)
        for name, literal in (("GraphRuntime", GraphRuntime), ("ServerName", ServerName))
    ),
)

KINDS: Mapping[str, OptionKind] = {
    **{kind.annotation: kind for kind in _KINDS},
    "Path": FILE,
    "tuple[Path, ...]": FILES,
    "tuple[str, ...]": TEXTS,
}
"""By annotation, of the API or of a stage, for options that name no kind of their own."""


def kind_of(annotation: str) -> OptionKind | None:
    """The kind of an annotation, with or without None; None for any other type."""
    return KINDS.get(annotation.removesuffix(" | None"))
