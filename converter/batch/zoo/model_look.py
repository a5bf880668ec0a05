"""Inspects a model without its weights before a batch runs: its files, and options that do not fit it."""

from __future__ import annotations

import contextlib
import os
import zipfile
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from trtsmith.converter.batch.zoo.model_sources import ModelSource
from trtsmith.converter.batch.zoo.zoo_file import Given, Keys
from trtsmith.converter.batch.zoo.zoo_options import (
    CheckedOptions,
    OptionCheck,
    OptionLayer,
    OptionReader,
    ZooCommands,
    as_in_a_zoo,
    named_paths,
)
from trtsmith.converter.convert.freezing import freezable, parse_freeze
from trtsmith.converter.convert.pytorch.torch_source import PROGRAM_SUFFIX
from trtsmith.converter.model.errors import TrtsmithError, UsageError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.shape_tensors import parse_values, value_profile
from trtsmith.converter.model.shapes import InputSpec, graph_inputs, input_problems, profile_for
from trtsmith.converter.verify.tolerances import parse_tolerances
from trtsmith.importers.problem import Problem

_SHAPES = ("shapes", "optShapes", "maxShapes", "minShapes")
_JUDGED = ("rtol", "atol", "not-compared", "compare")
_LOOKED_AT = ("freeze", "inputs", *_SHAPES, "values", *_JUDGED)


class ModelLook:
    """One model, loaded once. What is wrong with the file is a problem at the path that names it."""

    def __init__(self, source: ModelSource, commands: ZooCommands, reader: OptionReader) -> None:
        self._source, self._commands, self._reader = source, commands, reader
        self._freezable: frozenset[str] | None = None
        self._seen: set[tuple[frozenset[str], tuple[Keys, ...]]] = set()
        self.files: tuple[Path, ...] = ()
        self._model: Model | None = None if source.path is None else self._opened(source.path)

    def check(self, layer: OptionLayer, checked: CheckedOptions, entry: Given) -> None:
        """Problems for inputs and outputs that the model has not, and for shapes and values that do not fit.

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
        )

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

    def _opened(self, path: Path) -> Model | None:
        self.files = (path,)
        try:
            if path.suffix == PROGRAM_SUFFIX:
                if not zipfile.is_zipfile(path):
                    expected, fix = "a file that torch.export.save wrote", "copy or save the program again"
                    raise UsageError(Problem("the file is not a program of torch.export", "", expected, fix))
                return None
            model = load_model(path)
        except TrtsmithError as error:
            problems = error.problems
        except OSError as error:
            what = f"the model cannot be read: {error.strerror}"
            problems = (Problem(what, "", "a file that can be read", "make it readable"),)
        else:
            external = (name for name, file in model.files.items() if file.path != path)
            self.files = (path, *(path.parent / name for name in sorted(external)))
            return model
        for problem in problems:
            self._source.given.take(as_in_a_zoo(problem), self._source.text)
        return None


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


def files_of(options: Namespace) -> Iterator[Path]:
    """The files that parsed options name, absolute; of folders all that is in them."""
    for name, value in vars(options).items():
        if name not in ("output", "report", "model", "target"):  # no file, or one that every task has
            for path in named_paths(name, value):
                yield from _operator_files(path) if name == "ops" else (path,)


def depends_on_modules(options: Namespace) -> bool:
    """Whether Python modules are imported by name, so that their files are unknown."""
    return bool(options.reference) or any(not os.path.isabs(spec) for spec in options.ops)


def _operator_files(spec: Path) -> Iterator[Path]:
    """Of --ops: a folder whole; a file of a package the whole package; another file with the libraries beside it."""
    if spec.is_dir():
        yield from _tree(spec)
    elif not (spec.parent / "__init__.py").exists():
        yield spec
        yield from _tree(spec.parent / "lib")
    else:
        root = next(folder for folder in spec.parents if not (folder.parent / "__init__.py").exists())
        yield from _tree(root)


def _tree(folder: Path) -> Iterator[Path]:
    """All files below a folder, sorted; caches of Python and what begins with a dot left out."""
    for root, below, names in os.walk(folder):
        below[:] = sorted(one for one in below if one != "__pycache__" and not one.startswith("."))
        yield from (Path(root, name) for name in sorted(names) if not name.startswith("."))
