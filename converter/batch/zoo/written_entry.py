"""Writes the entry of one model for a zoo's file, from what the model says of its inputs."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.batch.zoo.size_guesses import guess_sizes
from trtsmith.converter.batch.zoo.toml_text import comment, toml_key, toml_string
from trtsmith.converter.convert.pytorch.torch_source import PROGRAM_SUFFIX
from trtsmith.converter.model.errors import TrtsmithError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.shapes import InputSpec, graph_inputs


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
    short = f"./{short}" if short.startswith("~") else short  # which would be a home
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
        model = load_model(path)
        specs = graph_inputs(model.proto)
    except TrtsmithError as error:
        return _skipped(short, [f"{problem.what} ({problem.where})" for problem in error.problems])
    except OSError as error:
        return _skipped(short, [f"it cannot be read: {error.strerror}"])
    lines = [*head, *(comment(f"input {_declared(spec)}") for spec in specs)]
    guesses = guess_sizes(model, specs)
    if guesses.guessed:
        doubt = "" if guesses.fits else ", and ONNX's shape inference refuses them"
        names = ", ".join(guesses.guessed)
        lines.append(comment(f"TODO: the model leaves these sizes open; they are guesses{doubt}: {names}"))
    elif not guesses.fits:
        lines.append(comment("TODO: ONNX's shape inference refuses these sizes"))
    # Dotted keys: below the header of a table, an option that someone adds would be in that table.
    lines += [
        f"shapes.{toml_key(name)} = {toml_string(str(sizes))}" for name, sizes in guesses.ranges.items()
    ]
    return WrittenEntry(tuple(lines), guessed=bool(guesses.guessed) or not guesses.fits)


def _skipped(short: str, reasons: Iterable[str]) -> WrittenEntry:
    return WrittenEntry(
        (comment(f"{short}: left out"), *(comment(f"  {why}") for why in reasons)), is_model=False
    )


def _declared(spec: InputSpec) -> str:
    dims = (str(d) if d is not None else name or "?" for d, name in zip(spec.shape, spec.names, strict=True))
    return f"{spec.name}: {spec.dtype}[{', '.join(dims)}]"
