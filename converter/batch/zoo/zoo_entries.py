"""Reads the tables of a zoo's file: what holds for all models, and every [[model]]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trtsmith.converter.batch.zoo.model_sources import ModelSource, find_models
from trtsmith.converter.batch.zoo.needs_table import NeedsLayer, read_needs
from trtsmith.converter.batch.zoo.option_tables import OptionLayer, check_keys, is_table, read_options
from trtsmith.converter.batch.zoo.option_words import one_line, shown
from trtsmith.converter.batch.zoo.task_names import name_fault, safe_name, unique_names
from trtsmith.converter.batch.zoo.toml_lines import Keys
from trtsmith.converter.batch.zoo.zoo_commands import ZooCommands
from trtsmith.converter.batch.zoo.zoo_file import ZooFindings
from trtsmith.converter.batch.zoo.zoo_matrix import ZooMatrix, read_matrix

TOP = ("defaults", "matrix", "needs", "bench", "model")
_SHARED = ("matrix", "needs", "bench")
_OF_MODEL = ("path", "name", *_SHARED)
_STEM = "{stem}"


@dataclass(frozen=True)
class ZooSettings:
    """What a table says. bench: options of `trtsmith bench`; None: not said; False: nothing is timed."""

    options: OptionLayer = field(default_factory=dict)
    matrix: ZooMatrix = field(default_factory=ZooMatrix)
    needs: NeedsLayer = field(default_factory=dict)
    bench: OptionLayer | bool | None = None


@dataclass(frozen=True)
class ZooModel:
    """One model. keys: of its [[model]]."""

    name: str
    source: ModelSource
    settings: ZooSettings
    keys: Keys


@dataclass(frozen=True)
class ZooEntries:
    """settings: of each [[model]], also of those that find no model. complete: whether all find some."""

    models: list[ZooModel]
    settings: list[ZooSettings]
    complete: bool


def read_defaults(document: Mapping[str, Any], commands: ZooCommands, findings: ZooFindings) -> ZooSettings:
    """[defaults], [matrix], [needs] and [bench]; the last three may stand in [defaults] instead."""
    check_keys(document, (), TOP, "a zoo's file", findings)
    given = document.get("defaults", {})
    if not is_table(given, ("defaults",), findings):
        given = {}
    for name in ("path", "name"):
        if name in given:
            findings.add(
                ("defaults", name), f"{name} is not for all models", "options", "move it into [[model]]"
            )
    tables: dict[str, tuple[Any, Keys]] = {}
    for name in _SHARED:
        if name in document:
            tables[name] = (document[name], (name,))
        if name in given:
            if name in tables:
                findings.add(
                    ("defaults", name),
                    f"{name} is there twice",
                    f"[{name}], or {name} in [defaults]",
                    "remove one",
                )
            tables[name] = (given[name], ("defaults", name))
    given = {name: value for name, value in given.items() if name not in ("path", "name")}
    options = read_options(given, ("defaults",), commands.convert, findings, _SHARED)
    return _settings(options, tables, commands, findings, of_model=False)


def read_models(document: Mapping[str, Any], commands: ZooCommands, findings: ZooFindings) -> ZooEntries:
    """All entries, and the models that they name."""
    entries = document.get("model", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        findings.add(("model",), f"model is {shown(entries)}", "[[model]], once for each", "write [[model]]")
        return ZooEntries([], [], complete=False)
    if not entries:
        what, fix = "the zoo has no model", '[[model]] and below it path = "nets/*.onnx"'
        findings.add((), what, "at least one [[model]]", fix)
    found: list[tuple[str, ModelSource, ZooSettings, Keys]] = []
    said = []
    complete = True
    for position, entry in enumerate(entries):
        keys: Keys = ("model", position)
        tables = {name: (entry[name], (*keys, name)) for name in _SHARED if name in entry}
        options = read_options(entry, keys, commands.convert, findings, _OF_MODEL)
        settings = _settings(options, tables, commands, findings, of_model=True)
        said.append(settings)
        sources: tuple[ModelSource, ...] = ()
        if "path" in entry:
            sources = find_models(entry["path"], (*keys, "path"), findings)
        else:
            findings.add(keys, "the model has no path", "path, of a file or of several", 'path = "a.onnx"')
        complete = complete and bool(sources)
        name = _name(entry.get("name"), (*keys, "name"), len(sources), findings)
        found += [(name, source, settings, keys) for source in sources]
    return ZooEntries(_named(found, findings), said, complete)


def _settings(
    options: OptionLayer,
    tables: Mapping[str, tuple[Any, Keys]],
    commands: ZooCommands,
    findings: ZooFindings,
    *,
    of_model: bool,
) -> ZooSettings:
    matrix = ZooMatrix()
    needs: NeedsLayer = {}
    bench: OptionLayer | bool | None = None
    if "matrix" in tables:
        matrix = read_matrix(*tables["matrix"], commands.convert, findings, of_model=of_model)
    if "needs" in tables:
        needs = read_needs(*tables["needs"], findings)
    if "bench" in tables:
        bench = _bench(*tables["bench"], commands, findings)
    return ZooSettings(options, matrix, needs, bench)


def _bench(value: Any, keys: Keys, commands: ZooCommands, findings: ZooFindings) -> OptionLayer | bool | None:
    if isinstance(value, bool):
        return {} if value else False
    if isinstance(value, dict):
        return read_options(value, keys, commands.bench, findings)
    expected = "true, false, or a table with options of `trtsmith bench`"
    findings.add(keys, f"bench is {shown(value)}", expected, "bench = true")
    return None


def _name(value: Any, keys: Keys, models: int, findings: ZooFindings) -> str:
    """The name, with {stem} in it perhaps; "" for none. In the place of one that cannot be, what the fix tells to write:
    names that differ are not told to clash."""
    if value is None:
        return ""
    if not isinstance(value, str):
        findings.add(keys, f"name is {shown(value)}", "a string", 'name = "..."')
    elif fault := name_fault(value.replace(_STEM, "stem")):
        what = f"{shown(value)} cannot be a folder's name: {fault}"
        better = safe_name(value)
        findings.add(keys, what, "a name that any file system takes", f'name = "{better}"')
        return better if models <= 1 or _STEM in better else ""
    elif models > 1 and _STEM not in value:
        what = f"path finds {models} models, which cannot all be called {value!r}"
        fix = f'name = "{value}-{_STEM}", with each file\'s stem in it, or no name'
        findings.add(keys, what, "a name for each", fix)
    else:
        return value
    return ""


def _named(found: list[tuple[str, ModelSource, ZooSettings, Keys]], findings: ZooFindings) -> list[ZooModel]:
    candidates = []
    for name, source, _, _ in found:
        if name:
            candidates.append([safe_name(name.replace(_STEM, source.names[0]))])
        else:
            candidates.append([safe_name(one) for one in source.names])
    names, clashes = unique_names(candidates)
    for first, *others in clashes:
        source, line = found[first][1], findings.file.line(found[first][3])
        for other in others:
            _, again, _, keys = found[other]
            if again.text == source.text:
                what = f"{one_line(again.text)} is a model of the entry in line {line}, too, and has one name in both"
            else:
                called = f"{one_line(source.text)} {names[first]!r} (line {line})"
                what = f"{one_line(again.text)} would be called {names[other]!r}, and {called}"
            expected = "a folder for each model, also where the case of letters does not count"
            fix = 'give one another name: name = "..."; or take it out of a glob: path = ["nets/*.onnx", "!nets/a.onnx"]'
            findings.add((*keys, "name"), what, expected, fix)
    return [
        ZooModel(name, source, settings, keys)
        for name, (_, source, settings, keys) in zip(names, found, strict=True)
    ]
