"""Writes a zoo's file for the models in a folder: `trtsmith batch --init FOLDER -o zoo.toml`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.batch.zoo.model_sources import SUFFIXES
from trtsmith.converter.batch.zoo.toml_text import comment, toml_string
from trtsmith.converter.batch.zoo.written_entry import WrittenEntry, entry_of
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.output_file import check_report, write_text
from trtsmith.importers.problem import Problem

FLAG = "-o"
_WHAT = "the zoo's file"


@dataclass(frozen=True)
class ZooWritten:
    """What a zoo was written of. models: entries in it. guessed: of these, those with sizes that nobody knows, marked TODO.
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
        what, expected = f"{_WHAT} is there already", "a file that is not there yet"
        raise UsageError(Problem(what, f"{FLAG} {output}", expected, "name another file, or add --force"))
    paths = _models_in(folder)
    base = Path(os.path.abspath(output.parent))
    entries = [entry_of(path, base) for path in paths]
    write_text(output, _text(folder, entries), FLAG, _WHAT)
    return ZooWritten(
        output,
        sum(entry.is_model for entry in entries),
        sum(entry.guessed for entry in entries),
        sum(not entry.is_model for entry in entries),
    )


def _models_in(folder: Path) -> list[Path]:
    """Model files, absolute and sorted; what begins with a dot left out."""
    where, fix = str(folder), "name the folder that has the models"
    if not folder.is_dir():
        what = "it is no folder" if folder.exists() else "there is no such folder"
        raise UsageError(Problem(what, where, "a folder with models", fix))
    found = []
    for root, below, names in os.walk(os.path.abspath(folder)):
        below[:] = sorted(name for name in below if not name.startswith("."))
        paths = (Path(root, name) for name in names if not name.startswith("."))
        found += [path for path in paths if path.suffix in SUFFIXES and path.is_file()]
    if not found:
        raise UsageError(Problem("it has no model", where, f"files with {' or '.join(SUFFIXES)}", fix))
    return sorted(found)


def _text(folder: Path, entries: list[WrittenEntry]) -> str:
    head = [
        comment(f"Written by: trtsmith batch --init {folder}"),
        "# docs/reference/zoo-files.md describes this file.",
        "",
        "# Options of all models: long flags of `trtsmith convert` without their dashes.",
        "[defaults]",
        f"# target = {toml_string('sm86,sm89')}",
        "",
        "# Every combination of the axes' values is a task.",
        "# [matrix]",
        '# precision = ["default", "fp16"]',
        "",
        "# What each task takes of a machine.",
        "# [needs]",
        '# memory = "8GiB"',
        '# timeout = "20m"',
    ]
    return "\n".join([*head, *(line for entry in entries for line in ("", *entry.lines))]) + "\n"
