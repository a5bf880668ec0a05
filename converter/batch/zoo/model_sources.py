"""Finds the models of a zoo entry: a file, files by a glob, or a function that returns a PyTorch module."""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.batch.zoo.zoo_file import Given, one_line, shown
from trtsmith.converter.batch.zoo.zoo_options import absolute
from trtsmith.converter.convert.pytorch.torch_source import PROGRAM_SUFFIX, TorchFactory, source_of_text

MOST_CHARACTERS, MOST_BYTES = 100, 200
"""A folder's name may have 255 bytes; what is written into it is named after it, too."""

TAKEN = frozenset({"results.json", "junit.xml", "index.html"})
"""Files of a batch, beside the folders of its models."""

_UNSAFE = re.compile(r'[/\\:*?"<>|]')
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def folded(name: str) -> str:
    """Normalises a name, so that names equal on case-insensitive file systems become equal."""
    return unicodedata.normalize("NFKC", name).casefold()


def name_fault(name: str) -> str:
    """Says why a name cannot be a folder name, as the rest of a sentence; "" if it can."""
    if not name:
        return "it is empty"
    if not name.isprintable():
        return "it has a control character, a newline or the like"
    if found := _UNSAFE.search(name):
        return f"it has a {found.group()!r}, which not every file system takes"
    if name.startswith((".", "-", "~")) or name != name.strip() or name.endswith("."):
        return "it begins with a dot, a dash, a tilde or a blank, or ends with a dot or a blank"
    if len(name) > MOST_CHARACTERS or len(name.encode(errors="replace")) > MOST_BYTES:
        return f"it is longer than {MOST_CHARACTERS} characters or {MOST_BYTES} bytes"
    if _DEVICES.fullmatch(name):
        return "it is a device's on some systems"
    return "it is a file of the batch itself" if folded(name) in TAKEN else ""


def safe_name(text: str) -> str:
    """Returns the closest valid folder name."""
    name = "".join(c if c.isprintable() and not _UNSAFE.match(c) else "_" for c in text)
    name = name.strip().rstrip(".").lstrip(".-~ ")[:MOST_CHARACTERS]
    while len(name.encode(errors="replace")) > MOST_BYTES:
        name = name[:-1]
    name = name.rstrip(" .") or "model"
    return name if not name_fault(name) else f"_{name}"  # a device's name, or one of TAKEN: these are short


def unique_names(candidates: Sequence[Sequence[str]]) -> tuple[list[str], list[list[int]]]:
    """Makes a name for each model; also returns the groups of models that still share a name.

    candidates: of each model its names, the one that it would have first. Only where two models have one name do they,
    both, get their next ones: names change as little as may be when a zoo grows.
    """
    chosen = [0] * len(candidates)
    while True:
        groups = defaultdict(list)
        for position, names in enumerate(candidates):
            groups[folded(names[chosen[position]])].append(position)
        clashes = [group for group in groups.values() if len(group) > 1]
        movable = [
            position
            for group in clashes
            for position in group
            if chosen[position] + 1 < len(candidates[position])
        ]
        if not movable:
            return [names[chosen[position]] for position, names in enumerate(candidates)], clashes
        for position in movable:
            chosen[position] += 1


SUFFIXES = (".onnx", PROGRAM_SUFFIX)
"""Of the files that a glob finds; a file that is named itself may have any."""

_STEM = "{stem}"
_GLOB = re.compile(r"[*?\[]")
_FORM = 'a file "a.onnx" or "a.pt2", a glob "nets/**/*.onnx", an array of them, "package.module:function" or "net.py:make"'
_CORRECT = "correct the path"


@dataclass(frozen=True, eq=False)
class FoundModel:
    """A model in the form that `trtsmith convert` takes. path: of its file, absolute; None for a function.

    names: what it may be called, the shortest first.
    given: the pattern that found it.
    """

    text: str
    path: Path | None
    names: tuple[str, ...]
    given: Given


def find_models(given: Given) -> list[FoundModel]:
    """The models of an entry's path, each once; "!pattern" in an array excludes models. No model is a problem."""
    several = isinstance(given.value, list)
    found: dict[str, FoundModel] = {}
    before = len(given.file.found)
    if given.value == []:
        given.wrong("path is an empty array", _FORM, "name a model")
    for one in given.inner() if several else [given]:
        pattern = one.value
        if not isinstance(pattern, str) or not pattern.strip() or "\0" in pattern:
            one.wrong(f"path is {shown(pattern)}", _FORM, "name a model")
        elif several and pattern.startswith("!"):
            out = {source.text for source in _found(pattern[1:], one)}
            if out and not found.keys() & out:
                expected = "files that the patterns before it find"
                one.wrong(f"{pattern!r} takes nothing out", expected, "remove it, or write it last")
            found = {text: source for text, source in found.items() if text not in out}
        else:
            for source in _found(pattern, one):
                found.setdefault(source.text, source)
    if not found and len(given.file.found) == before:
        what = "path takes everything out again that it finds"
        given.wrong(what, "at least one model", "correct the patterns")
    return list(found.values())


def read_name(given: Given, models: int) -> str | None:
    """Reads the name of an entry, perhaps with {stem} in it; "" for none; None for an invalid one."""
    value = given.value
    if value is None:
        return ""
    if not isinstance(value, str):
        given.wrong(f"name is {shown(value)}", "a string", 'name = "..."')
    elif fault := name_fault(value.replace(_STEM, "stem")):
        what = f"{shown(value)} cannot be a folder's name: {fault}"
        given.wrong(what, "a name that any file system takes", f'name = "{safe_name(value)}"')
    elif models > 1 and _STEM not in value:
        what = f"path finds {models} models, which cannot all be called {value!r}"
        fix = f'name = "{value}-{_STEM}", with each file\'s stem in it, or no name'
        given.wrong(what, "a name for each", fix)
    else:
        return value
    return None


def names_of(models: Sequence[tuple[str | None, FoundModel, Given]]) -> list[str]:
    """A name for each model, of the name that its entry gives, its source and its entry; problems where two have one."""
    names, clashes = unique_names(
        [
            [safe_name(one) for one in ([name.replace(_STEM, source.names[0])] if name else source.names)]
            for name, source, _ in models
        ]
    )
    for group in clashes:
        # Of the others there is a problem already: their name cannot be.
        sound = [one for one in group if models[one][0] is not None]
        for other in sound[1:]:
            (_, source, entry), (_, again, place) = models[sound[0]], models[other]
            what = f"{one_line(again.text)} would be called {names[other]!r}, and "
            what += f"{one_line(source.text)} {names[sound[0]]!r} (line {entry.line})"
            if again.text == source.text:
                what = f"{one_line(again.text)} is a model of the entry in line {entry.line}, too"
                what += ", and has one name in both"
            expected = "a folder for each model, also where the case of letters does not count"
            fix = 'give one another name: name = "..."; or take it out of a glob: path = ["nets/*.onnx", "!nets/a.onnx"]'
            place["name"].wrong(what, expected, fix)
    return names


def _found(pattern: str, given: Given) -> list[FoundModel]:
    folder = given.file.folder
    path = absolute(pattern, folder)
    try:
        source = source_of_text(pattern)
        if isinstance(source, TorchFactory) and not os.path.exists(path):
            return [_factory(source, given)]
        if _GLOB.search(pattern) and not os.path.exists(path):
            return [_file(one, given) for one in _glob(pattern, given)]
        if path.is_dir():
            given.wrong(f"{pattern!r} is a folder", _FORM, f'path = "{pattern.rstrip("/")}/**/*.onnx"')
        elif not path.exists():
            expected = f"{_FORM}; paths are relative to {folder}"
            given.wrong(f"there is no file {pattern!r}", expected, _nearest(pattern, path))
        elif not path.is_file():
            given.wrong(f"{pattern!r} is a device or a pipe", _FORM, "name a file")
        else:
            return [_file(path, given)]
    except OSError as error:  # of a name that is too long, a loop of links, a folder that cannot be read
        given.wrong(f"{pattern!r} cannot be looked for: {error.strerror}", _FORM, _CORRECT)
    return []


def _nearest(pattern: str, path: Path) -> str:
    """A fix for a file that is not there: the file beside it whose name is most like it."""
    try:
        beside = {name.casefold(): name for name in os.listdir(path.parent)}
    except OSError:
        return _CORRECT
    near = difflib.get_close_matches(path.name.casefold(), beside, 1, cutoff=0.7)
    return f"did you mean {os.path.join(os.path.dirname(pattern), beside[near[0]])!r}?" if near else _CORRECT


def _glob(pattern: str, given: Given) -> list[Path]:
    """The model files that match, sorted; files and folders whose names begin with a dot are not among them."""
    path = Path(os.path.expanduser(pattern))
    root, parts = (Path(path.anchor), path.parts[1:]) if path.anchor else (given.file.folder, path.parts)
    while len(parts) > 1 and not _GLOB.search(parts[0]):
        root, parts = root / parts[0], parts[1:]
    if parts[-1] == "**":  # folders alone to some Pythons, files too to others
        parts = (*parts, "*")
    odd = next((part for part in parts if "**" in part and part != "**"), None)
    if odd is not None:
        expected, fix = "** as the name of a folder by itself", f"write {odd.replace('**', '**/*', 1)!r}"
        given.wrong(f"{odd!r} in {pattern!r} is no pattern", expected, fix)
        return []
    files = [file for file in root.glob("/".join(parts)) if not _hidden(file, root) and file.is_file()]
    models = {absolute(str(file), root) for file in files if file.suffix in SUFFIXES}
    if not models:
        others = sorted({file.suffix or file.name for file in files})[:8]
        what = f"{pattern!r} matches no model" + (f", but files with {', '.join(others)}" if others else "")
        expected = f"files with {' or '.join(SUFFIXES)}; paths are relative to {given.file.folder}"
        given.wrong(what, expected, "correct the pattern")
    return sorted(models)


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") and part != ".." for part in path.relative_to(root).parts)


def _file(path: Path, given: Given) -> FoundModel:
    """Names: the stem; with one folder before it, two, ...; and at last with the suffix."""
    folder = given.file.folder
    inside = path.relative_to(folder if path.is_relative_to(folder) else path.anchor)
    parts = [*inside.parts[:-1], path.stem]
    names = ["-".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
    return FoundModel(str(path), path, (*names, f"{names[-1]}-{path.suffix[1:]}"), given)


def _factory(source: TorchFactory, given: Given) -> FoundModel:
    function = source.function
    if source.is_file:
        file = absolute(source.place, given.file.folder)
        return FoundModel(f"{file}:{function}", None, (function, f"{file.stem}-{function}"), given)
    return FoundModel(source.name, None, (function, f"{source.place}-{function}"), given)
