"""Reads and checks an engine's manifest, for all modules that need a part of it.

Each consumer has a frozen dataclass of what it needs, and a function that makes it of the document with the functions
below. They raise ValueError, TypeError or LookupError for what is not as `trtsmith convert` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.build_request import EngineTensor, Profile
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.rewrite.types import IoType
from trtsmith.importers.dtypes import NUMBERS

_MOST_BYTES = 64 << 20
"""Manifests have some KiB; the values of frozen inputs in them are below 1 KiB each."""

T = TypeVar("T")


def read_manifest(engine: Path, parse: Callable[[Mapping[str, Any]], T]) -> T | None:
    """Parses the manifest beside the engine with `parse`; None without one.

    UsageError for one that cannot be read, or in which `parse` does not find what it looks for.
    """
    path = manifest_path(engine)
    try:
        return parse(read_document(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        said = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"The engine's manifest cannot be read: {said if len(said) <= 300 else said[:297] + '...'}",
            str(path),
            "the manifest that `trtsmith convert` wrote with the engine",
            "convert the model again, or move the file away and name plugin libraries with --plugins",
        ) from error


def read_document(path: Path) -> Mapping[str, Any]:
    """Reads the JSON object in a file. Raises OSError, ValueError or TypeError."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")
    with path.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB")
    return mapping(json.loads(data.decode("utf-8")))


def mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{_short(value)} is not an object")
    return value


def items(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{_short(value)} is not a list")
    return tuple(value)


def text(value: Any) -> str:
    """Checks a string that can be written as UTF-8."""
    if not isinstance(value, str):
        raise TypeError(f"{_short(value)} is not a string")
    value.encode()
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{_short(value)} is neither true nor false")
    return value


def dtype(value: Any) -> str:
    """Checks the name of an ONNX type: numpy knows others, even "V2000000000" with as many bytes an element."""
    if text(value) not in NUMBERS:
        raise ValueError(f"{_short(value)} is not an element type")
    return str(value)


def sizes(value: Any, smallest: int = 0) -> tuple[int, ...]:
    """Checks whole numbers that fit 64 bits, none below `smallest`."""
    numbers = items(value)
    for number in numbers:
        if type(number) is not int or not smallest <= number < 2**63:
            raise ValueError(f"{_short(number)} is not a size")
    return numbers


def file_digests(value: Any) -> dict[str, str]:
    """Checks "sha256:..." by file name. A manifest names files that lie beside it, and no others."""
    for name in mapping(value):
        if Path(name).name != name or name in ("", ".."):
            raise ValueError(f"{_short(name)} is not a file name")
    return {text(name): text(digest) for name, digest in value.items()}


def io_types(value: Any) -> tuple[IoType, ...]:
    return tuple(IoType(text(io["name"]), dtype(io["before"]), dtype(io["after"])) for io in items(value))


def tensors(value: Any) -> tuple[EngineTensor, ...]:
    """Reads inputs or outputs of the engine."""
    return tuple(
        EngineTensor(
            text(tensor["name"]),
            text(tensor["dtype"]),  # as it is: some engines have types that no array library names
            sizes(tensor["shape"], -1),
            text(tensor.get("mode", "")),
            flag(tensor.get("is_shape_tensor", False)),
        )
        for tensor in map(mapping, items(value))
    )


def profiles(value: Any) -> tuple[dict[str, Profile], ...]:
    """Reads the optimization profiles: by input, sizes from the smallest to the largest."""
    return tuple(
        {text(name): _profile(mapping(one)) for name, one in mapping(p).items()} for p in items(value)
    )


def _profile(one: Mapping[str, Any]) -> Profile:
    values = flag(one.get("values", False))
    least = -(2**63) if values else 0
    low, usual, high = (sizes(one[name], least) for name in ("min", "opt", "max"))
    if not all(a <= b <= c for a, b, c in zip(low, usual, high, strict=True)):
        raise ValueError("a profile's sizes are not in order")
    return Profile(low, usual, high, values)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
