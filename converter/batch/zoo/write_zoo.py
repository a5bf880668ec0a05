"""Writes a zoo's file for the models in a folder: `trtsmith batch --init FOLDER -o zoo.toml`."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.batch.zoo.model_sources import SUFFIXES
from trtsmith.converter.batch.zoo.size_guesses import guess_sizes
from trtsmith.converter.batch.zoo.zoo_file import toml_comment, toml_key, toml_string
from trtsmith.converter.convert.pytorch.torch_source import PROGRAM_SUFFIX
from trtsmith.converter.model.errors import TrtsmithError, UsageError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.output_file import check_report, write_text
from trtsmith.converter.model.shapes import InputSpec, graph_inputs
from trtsmith.importers.problem import Problem

FLAG = "-o"
_WHAT = "the zoo's file"
_ENTRY, _TODO = "[[model]]", "# TODO: "

_HEAD = """\
# docs/reference/zoo-files.md describes this file.

# Options of all models: long flags of `trtsmith convert` without their dashes.
[defaults]
# target = "sm86,sm89"

# Every combination of the axes' values is a task.
# [matrix]
# precision = ["default", "fp16"]

# What each task takes of a machine.
# [needs]
# memory = "8GiB"
# timeout = "20m"
"""


@dataclass(frozen=True)
class ZooWritten:
    """A written zoo. models: its entries. guessed: those with unknown sizes, marked TODO.
    skipped: files that are no models that can be read: comments in it."""

    path: Path
    models: int
    guessed: int
    skipped: int


def write_zoo(folder: Path, output: Path, *, overwrite: bool = False) -> ZooWritten:
    """One entry for each .onnx and .pt2 file in a folder and those below it; read_zoo takes what is written.

    Dynamic inputs get shapes: 1 to 4 for a batch; other sizes that the model leaves open are guesses, and marked TODO.
    UsageError where the folder has no model, and where `output` is there already, unless it may be overwritten.
    """
    check_report(output, (), FLAG, _WHAT)
    if output.exists() and not overwrite:
        what, expected = f"{_WHAT} already exists", "a new file"
        raise UsageError(Problem(what, f"{FLAG} {output}", expected, "name another file, or add --force"))
    paths = _models_in(folder)
    entries = [_entry(path, Path(os.path.abspath(output.parent))) for path in paths]
    head = toml_comment(f"Written by: trtsmith batch --init {folder}") + "\n" + _HEAD
    text = "".join("\n" + "".join(f"{line}\n" for line in lines) for lines in entries)
    write_text(output, head + text, FLAG, _WHAT)
    models = [lines for lines in entries if lines[0] == _ENTRY]
    guessed = sum(any(line.startswith(_TODO) for line in lines) for lines in models)
    return ZooWritten(output, len(models), guessed, len(entries) - len(models))


def _models_in(folder: Path) -> list[Path]:
    """Model files, absolute and sorted; what begins with a dot left out."""
    where, fix = str(folder), "name the folder that has the models"
    if not folder.is_dir():
        what = "it is not a folder" if folder.exists() else "there is no such folder"
        raise UsageError(Problem(what, where, "a folder with models", fix))
    found = []
    for root, below, names in os.walk(os.path.abspath(folder)):
        below[:] = [name for name in below if not name.startswith(".")]
        paths = (Path(root, name) for name in names if not name.startswith("."))
        found += [path for path in paths if path.suffix in SUFFIXES and path.is_file()]
    if not found:
        raise UsageError(Problem("it has no model", where, f"files with {' or '.join(SUFFIXES)}", fix))
    return sorted(found)


def _entry(path: Path, base: Path) -> list[str]:
    """The lines for a model: an entry, or comments that say why there is none. base: the folder of its path."""
    short = os.path.relpath(path, base)
    short = f"./{short}" if short.startswith("~") else short  # which would be a home
    try:
        head = [_ENTRY, f"path = {toml_string(short)}"]
    except UnicodeEncodeError:
        return _skipped(short, ["the file's name is not UTF-8, which TOML is"])
    if path.suffix == PROGRAM_SUFFIX:
        if not zipfile.is_zipfile(path):
            return _skipped(short, ["it is no file that torch.export.save wrote"])
        note = "a PyTorch program, whose dynamic sizes have ranges of their own; shapes = ... replaces them"
        return [*head, toml_comment(note)]
    try:
        model = load_model(path)
        specs = graph_inputs(model.proto)
    except TrtsmithError as error:
        return _skipped(short, [f"{problem.what} ({problem.where})" for problem in error.problems])
    except OSError as error:
        return _skipped(short, [f"it cannot be read: {error.strerror}"])
    ranges, guessed, fits = guess_sizes(model, specs)
    todo = [] if fits else [f"{_TODO}ONNX's shape inference refuses these sizes"]
    if guessed:
        doubt = "" if fits else ", and ONNX's shape inference refuses them"
        names = toml_comment(", ".join(guessed)).removeprefix("# ")
        todo = [f"{_TODO}the model leaves these sizes open; they are guesses{doubt}: {names}"]
    # Dotted keys: below the header of a table, an option that someone adds would be in that table.
    shapes = [f"shapes.{toml_key(name)} = {toml_string(str(sizes))}" for name, sizes in ranges.items()]
    return [*head, *(toml_comment(f"input {_declared(spec)}") for spec in specs), *todo, *shapes]


def _skipped(short: str, reasons: Iterable[str]) -> list[str]:
    return [toml_comment(f"{short}: left out"), *(toml_comment(f"  {why}") for why in reasons)]


def _declared(spec: InputSpec) -> str:
    dims = (str(d) if d is not None else name or "?" for d, name in zip(spec.shape, spec.names, strict=True))
    return f"{spec.name}: {spec.dtype}[{', '.join(dims)}]"
