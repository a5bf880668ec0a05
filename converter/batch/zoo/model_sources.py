"""Finds the models that an entry names: a file, files by a glob, or a function that gives a PyTorch module."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.zoo.option_words import absolute, shown
from trtsmith.converter.batch.zoo.toml_lines import Keys
from trtsmith.converter.batch.zoo.zoo_file import ZooFindings
from trtsmith.converter.convert.pytorch.torch_source import PROGRAM_SUFFIX, TorchFactory, source_of_text

SUFFIXES = (".onnx", PROGRAM_SUFFIX)
"""Of the files that a glob finds; a file that is named itself may have any."""

_GLOB = re.compile(r"[*?\[]")
_FORM = 'a file "a.onnx" or "a.pt2", a glob "nets/**/*.onnx", an array of them, "package.module:function" or "net.py:make"'


@dataclass(frozen=True)
class ModelSource:
    """A model as `trtsmith convert` takes it. path: of its file, absolute; None of a function.

    names: what it may be called, the shortest first.
    keys:  of the pattern that found it.
    """

    text: str
    path: Path | None
    names: tuple[str, ...]
    keys: Keys


def find_models(value: Any, keys: Keys, findings: ZooFindings) -> tuple[ModelSource, ...]:
    """The models of an entry's path, each once; "!pattern" in an array takes some out again. A finding where none is."""
    several = isinstance(value, list)
    patterns = value if several else [value]
    found: dict[str, ModelSource] = {}
    before = len(findings)
    if not patterns:
        findings.add(keys, "path is an empty array", _FORM, "name a model")
    for position, pattern in enumerate(patterns):
        place = (*keys, position) if several else keys
        if not isinstance(pattern, str) or not pattern.strip() or "\0" in pattern:
            findings.add(place, f"path is {shown(pattern)}", _FORM, "name a model")
        elif several and pattern.startswith("!"):
            out = _found(pattern[1:], place, findings)
            if out and not found.keys() & {source.text for source in out}:
                what = f"{pattern!r} takes nothing out"
                findings.add(
                    place, what, "files that the patterns before it find", "remove it, or write it last"
                )
            for source in out:
                found.pop(source.text, None)
        else:
            found |= {
                source.text: source for source in _found(pattern, place, findings) if source.text not in found
            }
    if patterns and not found and len(findings) == before:
        findings.add(
            keys,
            "path takes everything out again that it finds",
            "at least one model",
            "correct the patterns",
        )
    return tuple(found.values())


def _found(pattern: str, keys: Keys, findings: ZooFindings) -> list[ModelSource]:
    folder = findings.file.folder
    path = absolute(pattern, folder)
    try:
        source = source_of_text(pattern)
        if isinstance(source, TorchFactory) and not os.path.exists(path):
            return [_factory(source, folder, keys)]
        if _GLOB.search(pattern) and not os.path.exists(path):
            return [_file(one, folder, keys) for one in _glob(pattern, keys, findings)]
        if path.is_dir():
            fix = f'path = "{pattern.rstrip("/")}/**/*.onnx"'
            findings.add(keys, f"{pattern!r} is a folder", _FORM, fix)
        elif not path.exists():
            expected = f"{_FORM}; paths are relative to {folder}"
            findings.add(keys, f"there is no file {pattern!r}", expected, _nearest(pattern, path))
        elif not path.is_file():
            findings.add(keys, f"{pattern!r} is a device or a pipe", _FORM, "name a file")
        else:
            return [_file(path, folder, keys)]
    except OSError as error:  # of a name that is too long, a loop of links, a folder that cannot be read
        findings.add(keys, f"{pattern!r} cannot be looked for: {error.strerror}", _FORM, "correct the path")
    return []


def _nearest(pattern: str, path: Path) -> str:
    """A fix for a file that is not there: the file beside it whose name is most like it."""
    try:
        beside = {name.casefold(): name for name in os.listdir(path.parent)}
    except OSError:
        return "correct the path"
    near = difflib.get_close_matches(path.name.casefold(), beside, 1, cutoff=0.7)
    return (
        f"did you mean {os.path.join(os.path.dirname(pattern), beside[near[0]])!r}?"
        if near
        else "correct the path"
    )


def _glob(pattern: str, keys: Keys, findings: ZooFindings) -> list[Path]:
    """The model files that match, sorted; files and folders whose names begin with a dot are not among them."""
    given = Path(os.path.expanduser(pattern))
    root, parts = (
        (Path(given.anchor), given.parts[1:]) if given.anchor else (findings.file.folder, given.parts)
    )
    while len(parts) > 1 and not _GLOB.search(parts[0]):
        root, parts = root / parts[0], parts[1:]
    if parts[-1] == "**":  # folders alone to some Pythons, files too to others
        parts = (*parts, "*")
    odd = next((part for part in parts if "**" in part and part != "**"), None)
    if odd is not None:
        fix = f"write {odd.replace('**', '**/*', 1)!r}"
        findings.add(
            keys, f"{odd!r} in {pattern!r} is no pattern", "** as the name of a folder by itself", fix
        )
        return []
    matches = [path for path in root.glob("/".join(parts)) if not _hidden(path, root)]
    models = sorted(
        absolute(str(path), root) for path in matches if path.suffix in SUFFIXES and path.is_file()
    )
    if not models:
        others = sorted({path.suffix or path.name for path in matches if path.is_file()})[:8]
        what = f"{pattern!r} matches no model" + (f", but files with {', '.join(others)}" if others else "")
        expected = f"files with {' or '.join(SUFFIXES)}; paths are relative to {findings.file.folder}"
        findings.add(keys, what, expected, "correct the pattern")
    return list(dict.fromkeys(models))


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") and part != ".." for part in path.relative_to(root).parts)


def _file(path: Path, folder: Path, keys: Keys) -> ModelSource:
    """Names: the stem; with one folder before it, two, ...; and at last with the suffix."""
    inside = path.relative_to(folder) if path.is_relative_to(folder) else path.relative_to(path.anchor)
    parts = [*inside.parts[:-1], path.stem]
    names = ["-".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
    return ModelSource(str(path), path, (*names, f"{names[-1]}-{path.suffix[1:]}"), keys)


def _factory(source: TorchFactory, folder: Path, keys: Keys) -> ModelSource:
    function = source.function
    if source.is_file:
        file = absolute(source.place, folder)
        return ModelSource(f"{file}:{function}", None, (function, f"{file.stem}-{function}"), keys)
    return ModelSource(source.name, None, (function, f"{source.place}-{function}"), keys)
