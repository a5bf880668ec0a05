"""Reads a zoo file into tasks, or into a list of all problems. docs/reference/zoo-files.md describes the file.

    [defaults]                      # options of all models: the long flags of `trtsmith convert` without dashes
    precision = "fp16"

    [matrix]                        # every combination of the axes' values is a task
    target = ["sm86", "sm89"]
    exclude = [{ target = "sm86", model = "large-*" }]

    [needs]                         # what each task takes of a machine
    memory = "8GiB"
    timeout = "20m"

    [[model]]
    path = "nets/**/*.onnx"

    [[model]]
    path = "detector.onnx"
    shapes = { images = "1x3x320x320:1x3x640x640:8x3x640x640" }
    bench = true

Nearer settings win: [defaults], then the zoo's matrix, then the model, then the model's own matrix. An option that a model
sets itself is no axis of that model.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from argparse import Action, Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from trtsmith.converter.base.errors import TrtsmithError, UsageError
from trtsmith.converter.base.options.kinds import SPECS
from trtsmith.converter.base.options.shape_tensors import parse_values, value_profile
from trtsmith.converter.base.options.shapes import InputSpec, graph_inputs, input_problems, profile_for
from trtsmith.converter.batch.task import BatchTask, is_selected
from trtsmith.converter.batch.zoo.model_sources import FoundModel, find_models, names_of, read_name
from trtsmith.converter.batch.zoo.zoo_file import Given, KeyPath, read_zoo_file, shown
from trtsmith.converter.batch.zoo.zoo_matrix import (
    Setting,
    VariantMaker,
    ZooMatrix,
    needs_of,
    read_matrix,
    read_needs,
    variant_name,
)
from trtsmith.converter.batch.zoo.zoo_options import (
    CheckedOptions,
    OptionCheck,
    OptionLayer,
    OptionReader,
    ZooCommands,
    kind_of_action,
    named_paths,
)
from trtsmith.converter.convert.freezing import freezable, parse_freeze
from trtsmith.converter.convert.pytorch.torch_source import PROGRAM_SUFFIX
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.operators.package_files import files_of_path
from trtsmith.converter.tune.tune import TuningOptions
from trtsmith.converter.verify.given import without_inputs
from trtsmith.converter.verify.tolerances import TOLERANCE_BY_OUTPUT, parse_tolerances
from trtsmith.importers.problem import Problem

_SHAPES = ("shapes", "optShapes", "maxShapes", "minShapes")
_JUDGED = ("rtol", "atol", "not-compared", "compare")
_LOOKED_AT = ("freeze", "inputs", "expected", *_SHAPES, "values", *_JUDGED)


class ModelLook:
    """One model, loaded once, at the first check. Converting says what is wrong with a file that cannot be read."""

    def __init__(self, source: FoundModel, commands: ZooCommands, reader: OptionReader) -> None:
        self._source, self._commands, self._reader = source, commands, reader
        self._freezable: frozenset[str] | None = None
        self._seen: set[tuple[frozenset[str], tuple[KeyPath, ...]]] = set()
        self.files: tuple[Path, ...] = () if source.path is None else (source.path,)

    def check(self, layer: OptionLayer, checked: CheckedOptions, entry: Given) -> None:
        """Finds problems: unknown inputs and outputs, and shapes and values that do not fit.

        Not for a model that TensorRT could not have whatever its options: converting it says why.
        """
        dests = [self._reader.actions[name].dest for name in _LOOKED_AT]
        seen = (checked.wrong, tuple(layer[dest].keys for dest in dests if dest in layer))
        if seen in self._seen or self._model is None or any(True for _ in input_problems(self._model.proto)):
            return
        self._seen.add(seen)
        proto, options = self._model.proto, checked.read
        frozen: dict[str, object] = {}
        left: Sequence[InputSpec] = graph_inputs(proto)
        optional: Iterable[str] = ()

        def shapes(_: Namespace) -> None:
            given = {n: s for n, s in self._commands.shapes(options).items() if n not in frozen}
            profile_for(left, given, optional=frozenset(optional))

        def tolerances(_: Namespace) -> None:
            judged = parse_tolerances(options.rtol, options.atol, options.not_compared, options.compare)
            judged.check_outputs([value.name for value in proto.graph.output])

        def run(*checks: OptionCheck) -> CheckedOptions:
            return self._reader.run(checks, layer, checked, entry, self._source.text)

        checked = run(OptionCheck(("freeze",), lambda _: frozen.update(parse_freeze(options.freeze, proto))))
        left = [spec for spec in left if spec.name not in frozen]
        # Nobody knows which inputs are left where these are wrong.
        unsure = checked.wrong & {"inputs", "freeze"}
        optional = {spec.name for spec in left} if unsure else self._frozen_by_example(options.inputs)
        run(
            OptionCheck(("inputs",), lambda _: _check_arrays(options.inputs, left)),
            OptionCheck(_SHAPES, shapes),
            OptionCheck(
                ("values",), lambda _: value_profile(left, frozenset(), parse_values(options.values), {})
            ),
            OptionCheck(_JUDGED, tolerances),
            OptionCheck(("expected", "inputs"), _check_inputs_given),
        )

    def check_search(
        self, tune: OptionReader, search: OptionLayer, tuned: CheckedOptions, entry: Given
    ) -> CheckedOptions:
        """Finds bounds of outputs that the model lacks. tune: reader of the options `search`, which are `tuned` if read."""
        if self._model is None:
            return tuned
        outputs = [value.name for value in self._model.proto.graph.output]

        def bounds(options: Namespace) -> None:
            given = TOLERANCE_BY_OUTPUT.read(options.max_error, "max-error")
            TuningOptions(max_error=given).check_outputs(outputs)

        return tune.run([OptionCheck(("max-error",), bounds)], search, tuned, entry, self._source.text)

    def _frozen_by_example(self, inputs: Path | None) -> Iterable[str]:
        """What --inputs has a value of is frozen, where TensorRT wants it constant: such an input needs no shapes."""
        if inputs is None or self._model is None:
            return ()
        if self._freezable is None:
            self._freezable = frozenset(spec.name for spec in graph_inputs(self._model.proto))
            # TrtsmithError: of functions that converting cannot put in the place of their calls.
            with contextlib.suppress(TrtsmithError):
                self._freezable = freezable(self._model)
        return self._freezable

    @cached_property
    def _model(self) -> Model | None:
        """None for a function, for a program of PyTorch, and for a file that cannot be read."""
        path = self._source.path
        if path is None or path.suffix == PROGRAM_SUFFIX:
            return None
        try:
            model = load_model(path)
        except (TrtsmithError, OSError):
            return None
        external = (name for name, file in model.files.items() if file.path != path)
        self.files = (path, *(path.parent / name for name in sorted(external)))
        return model


def _check_inputs_given(options: Namespace) -> None:
    if options.expected is not None and options.inputs is None:
        raise without_inputs(str(options.expected), 'inputs = "FILE.npz"')


def _check_arrays(file: Path | None, specs: Iterable[InputSpec]) -> None:
    """--inputs has an array for each input. Their names are read, and no array."""
    names: list[str] = []
    with contextlib.suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(file or "") as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    have = ", ".join(map(repr, names[:20])) or "nothing"
    missing = [spec.name for spec in specs if file is not None and spec.name not in names]
    if missing:
        raise UsageError(
            [
                Problem(f"no array for input {n!r}", str(file), f"an array {n!r}; it holds {have}", "add it")
                for n in missing
            ]
        )


def files_of(options: Namespace, actions: Iterable[Action]) -> Iterator[Path]:
    """Lists absolute paths of all files that parsed options name, including those inside named folders.

    actions: of the options that a zoo can give.
    """
    kinds = {action.dest: kind_of_action(action) for action in actions}
    for name, value in vars(options).items():
        for path in named_paths(kinds[name], value) if name in kinds else ():
            yield from _operator_files(path) if kinds[name] is SPECS else (path,)


def depends_on_modules(options: Namespace) -> bool:
    """Tells whether Python modules are imported by name, so that their files are unknown."""
    return bool(options.reference) or any(not os.path.isabs(spec) for spec in options.ops)


def _operator_files(spec: Path) -> Iterator[Path]:
    """Of --ops: see package_files. A folder that cannot be read has no files: the task says what is wrong with it."""
    with contextlib.suppress(OSError):
        yield from files_of_path(spec)[1]


_SHARED = ("matrix", "needs", "bench", "tune")
TOP = ("defaults", *_SHARED, "model")

_FurtherOptions = OptionLayer | bool | None
"""Of `trtsmith bench` or `trtsmith tune`; None: not said; False: the command is not run."""


@dataclass(frozen=True)
class _Table:
    """What [defaults] or a [[model]] says."""

    setting: Setting
    matrix: ZooMatrix = field(default_factory=ZooMatrix)
    bench: _FurtherOptions = None
    tune: _FurtherOptions = None


def read_zoo(path: Path, commands: ZooCommands, only: Sequence[str] = ()) -> tuple[BatchTask, ...]:
    """Reads the tasks, in the order of the file. commands: trtsmith.zoo_commands.zoo_commands().

    only: patterns; models of tasks that match none are not opened, so that these tasks lack files of external data.

    UsageError with all problems, each with its line: of the file, of options, and of options that do not fit a model, which
    is looked at without its weights. Runs nothing, and loads no plugin library and no module of the user's.
    """
    return read_document(read_zoo_file(path), commands, only)


def read_document(document: Given, commands: ZooCommands, only: Sequence[str] = ()) -> tuple[BatchTask, ...]:
    """Reads the tasks of a zoo's content, as read_zoo does those of a file."""
    tasks = _ZooReader(document, commands, only).tasks()
    document.file.raise_any()
    return tasks


class _ZooReader:
    """Reads one zoo. Its models are read one after another: each is opened once, and closed before the next."""

    def __init__(self, document: Given, commands: ZooCommands, only: Sequence[str]) -> None:
        self._document, self._commands, self._only = document, commands, only
        self._convert, self._bench = OptionReader(commands.convert), OptionReader(commands.bench)
        self._tune = OptionReader(commands.tune)
        self._files: dict[CheckedOptions, tuple[Path, ...]] = {}
        self._defaults = self._read_defaults()
        self._variants = VariantMaker(self._defaults.setting, self._defaults.matrix, self._convert)

    def tasks(self) -> tuple[BatchTask, ...]:
        """The valid tasks; `problems` covers the others."""
        models: list[tuple[str | None, FoundModel, Given]] = []
        tables: list[_Table] = []
        complete = True
        for entry in self._entries():
            own = {name: entry[name] for name in _SHARED if name in entry}
            table = self._read_table(entry, own, ("path", "name", *_SHARED), of_model=True)
            sources = find_models(entry["path"]) if "path" in entry else []
            if "path" not in entry:
                entry.wrong("the model has no path", "path, of a file or of several", 'path = "a.onnx"')
            complete = complete and bool(sources)
            name = read_name(entry["name"], len(sources))
            models += [(name, source, entry) for source in sources]
            tables += [table] * len(sources)
        made = [
            task
            for name, (_, source, entry), table in zip(names_of(models), models, tables, strict=True)
            for task in self._tasks_of(name, source, entry, table)
        ]
        self._variants.finish(complete=complete and bool(models))
        return tuple(made)

    def _read_defaults(self) -> _Table:
        """[defaults], [matrix], [needs], [bench] and [tune]; all but the first may stand in [defaults] instead."""
        document = self._document
        document.check_keys(TOP, "a zoo's file")
        given = document["defaults"]
        if "defaults" not in document or not given.is_table():
            given = Given(given.file, given.keys, given.name, {})
        for name in ("path", "name"):
            if name in given:
                given[name].wrong(f"{name} is not for all models", "options", "move it into [[model]]")
        shared = {name: document[name] for name in _SHARED if name in document}
        for name in _SHARED:
            if name in given:
                if name in shared:
                    expected = f"[{name}], or {name} in [defaults]"
                    given[name].wrong(f"{name} is there twice", expected, "remove one")
                shared[name] = given[name]
        options = {name: value for name, value in given.value.items() if name not in ("path", "name")}
        return self._read_table(
            Given(given.file, given.keys, given.name, options), shared, _SHARED, of_model=False
        )

    def _entries(self) -> list[Given]:
        given = self._document["model"]
        if given.value is None or given.value == []:
            fix = '[[model]] and below it path = "nets/*.onnx"'
            self._document.wrong("the zoo has no model", "at least one [[model]]", fix)
            return []
        if not isinstance(given.value, list) or not all(isinstance(entry, dict) for entry in given.value):
            given.wrong(f"model is {shown(given.value)}", "[[model]], once for each", "write [[model]]")
            return []
        return given.inner()

    def _read_table(
        self, given: Given, shared: dict[str, Given], others: tuple[str, ...], *, of_model: bool
    ) -> _Table:
        needs = read_needs(shared["needs"]) if "needs" in shared else {}
        setting = Setting(self._convert.read(given, others), needs)
        matrix = ZooMatrix()
        if "matrix" in shared:
            matrix = read_matrix(shared["matrix"], self._convert, of_model=of_model)
        further = (
            self._read_further(shared.get(reader.command.name), reader)
            for reader in (self._bench, self._tune)
        )
        return _Table(setting, matrix, *further)

    def _read_further(self, said: Given | None, reader: OptionReader) -> _FurtherOptions:
        if said is None:
            return None
        if isinstance(said.value, bool):
            return {} if said.value else False
        if isinstance(said.value, dict):
            return reader.read(said)
        name = reader.command.name
        expected = f"true, false, or a table with options of `trtsmith {name}`"
        said.wrong(f"{name} is {shown(said.value)}", expected, f"{name} = true")
        return None

    def _tasks_of(self, name: str, source: FoundModel, entry: Given, table: _Table) -> list[BatchTask]:
        look = ModelLook(source, self._commands, self._convert)
        variants = self._variants.variants(name, entry, table.setting, table.matrix)
        timing = _together(self._defaults.bench, table.bench, self._bench)
        search = _together(self._defaults.tune, table.tune, self._tune)
        tasks = []
        for labels, setting in variants:
            task_name = name if len(variants) == 1 else f"{name}/{variant_name(labels)}"
            selected = is_selected(task_name, name, self._only)
            checked = self._convert.check(setting.options, entry)
            timed = self._bench.check(timing or {}, entry)
            tuned = self._tune.check(search or {}, entry)
            if search is not None and tuned is not None:
                self._check_tuned(setting.options)
                tuned = look.check_search(self._tune, search, tuned, entry) if selected else tuned
            if checked is not None and selected:
                look.check(setting.options, checked, entry)
            if checked is None or timed is None or tuned is None or checked.wrong | timed.wrong | tuned.wrong:
                continue
            named = (file for one in (checked, timed, tuned) for file in self._named(one))
            task = BatchTask(
                name=task_name,
                model=name,
                source=source.text,
                words=self._convert.words(setting.options),
                files=tuple(dict.fromkeys((*look.files, *named))),
                variant=labels,
                bench=None if timing is None else self._bench.words(timing),
                tune=None if search is None else self._search_words(setting.options, search),
                needs=needs_of(setting),
                hashed=source.path is not None and not depends_on_modules(checked.read),
                line=entry.line,
            )
            tasks.append(task)
        return tasks

    def _check_tuned(self, options: OptionLayer) -> None:
        """Options of `convert` that a search does not take, or chooses itself, are problems."""
        for dest in options.keys() - self._tune.command.dests() - self._commands.judged:
            name = options[dest].name
            what = f"`trtsmith tune` does not take {name}, and a model with it is tuned"
            expected = (
                "options of `trtsmith tune`, or of the verdict: precision and nodes in float32 are searched"
            )
            fix = f"give {name} to other models only, or write tune = false in this one"
            options[dest].wrong(what, expected, fix)

    def _search_words(self, options: OptionLayer, search: OptionLayer) -> tuple[str, ...]:
        """Of `trtsmith tune`: the options of `convert` that it takes, too, and its own."""
        taken = {dest: given for dest, given in options.items() if dest in self._tune.command.dests()}
        return (*self._convert.words(taken), *self._tune.words(search))

    def _named(self, checked: CheckedOptions) -> tuple[Path, ...]:
        """The files that options name: most tasks of a matrix have the options of others."""
        if checked not in self._files:
            actions = self._tune.actions | self._convert.actions
            self._files[checked] = tuple(files_of(checked.read, actions.values()))
        return self._files[checked]


def _together(general: _FurtherOptions, own: _FurtherOptions, reader: OptionReader) -> OptionLayer | None:
    """The options of a further command, with the model's own before those of all models; None: it is not run."""
    last = general if own is None else own
    if not isinstance(last, dict):
        return None
    return reader.merged(general if isinstance(general, dict) else {}, last)
