"""Writes the entry of one model for a zoo's file, from what the model says of its inputs."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.batch.zoo.toml_text import comment, toml_key, toml_string
from trtsmith.converter.convert.pytorch.torch_source import PROGRAM_SUFFIX
from trtsmith.converter.model.errors import TrtsmithError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.shapes import InputSpec, Sizes, graph_inputs

BATCH = (1, 1, 4)
"""Smallest, usual and largest batch, where nobody says more."""

_BATCH_NAME = re.compile(r"(?:n|b|bs|nb|batch\w*|\w*_batch|batch[ _-]?size)", re.IGNORECASE)
_IMAGE, _OTHER = (320, 640, 1280), (1, 128, 512)


@dataclass(frozen=True)
class WrittenEntry:
    """lines: of the file. is_model: whether they are an entry, and no comment that says why there is none. guessed: whether
    sizes in it are guesses."""

    lines: tuple[str, ...]
    is_model: bool = True
    guessed: bool = False


def entry_of(path: Path, base: Path) -> WrittenEntry:
    """path: of the model, absolute. base: the folder that paths are relative to."""
    short = os.path.relpath(path, base)
    try:
        head = ["[[model]]", f"path = {toml_string(short)}"]
    except UnicodeEncodeError:
        return _skipped(short, ["the file's name is not UTF-8, which TOML is"])
    if path.suffix == PROGRAM_SUFFIX:
        if not zipfile.is_zipfile(path):
            return _skipped(short, ["it is no file that torch.export.save wrote"])
        note = "a PyTorch program, whose dynamic sizes have ranges of their own; shapes = ... replaces them"
        return WrittenEntry((*head, comment(note)))
    try:
        specs = graph_inputs(load_model(path).proto)
    except TrtsmithError as error:
        return _skipped(short, [f"{problem.what} ({problem.where})" for problem in error.problems])
    except OSError as error:
        return _skipped(short, [f"it cannot be read: {error.strerror}"])
    dynamic = [spec for spec in specs if None in spec.shape]
    lines = [*head, *(comment(f"input {_declared(spec)}") for spec in specs)]
    guesses = [guess for spec in dynamic for guess in _guesses(spec)]
    if guesses:
        lines.append(
            comment(f"TODO: the model leaves these sizes open, and they are guesses: {', '.join(guesses)}")
        )
    if dynamic:
        lines.append("[model.shapes]")
        lines += [f"{toml_key(spec.name)} = {toml_string(_range(spec))}" for spec in dynamic]
    return WrittenEntry(tuple(lines), guessed=bool(guesses))


def _skipped(short: str, reasons: Iterable[str]) -> WrittenEntry:
    return WrittenEntry(
        (comment(f"{short}: left out"), *(comment(f"  {why}") for why in reasons)), is_model=False
    )


def _declared(spec: InputSpec) -> str:
    dims = (str(d) if d is not None else name or "?" for d, name in zip(spec.shape, spec.names, strict=True))
    return f"{spec.name}: {spec.dtype}[{', '.join(dims)}]"


def _is_batch(spec: InputSpec, axis: int) -> bool:
    name = spec.names[axis]
    return bool(_BATCH_NAME.fullmatch(name)) if name else axis == 0


def _guesses(spec: InputSpec) -> Iterator[str]:
    for axis, size in enumerate(spec.shape):
        if size is None and not _is_batch(spec, axis):
            yield f"{spec.names[axis] or f'axis {axis}'} of {spec.name}"


def _range(spec: InputSpec) -> str:
    parts = ["x".join(map(str, _sizes(spec, choice))) for choice in range(3)]
    return ":".join(parts)


def _sizes(spec: InputSpec, choice: int) -> Sizes:
    image = len(spec.shape) == 4
    sizes = []
    for axis, size in enumerate(spec.shape):
        if size is None:
            kind = BATCH if _is_batch(spec, axis) else _IMAGE if image and axis >= 2 else _OTHER
            size = kind[choice]
        sizes.append(size)
    return tuple(sizes)
