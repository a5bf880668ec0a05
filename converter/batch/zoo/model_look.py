"""Looks at a model before anything runs, without its weights: what of its options does not fit it."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from trtsmith.converter.batch.zoo.model_sources import ModelSource
from trtsmith.converter.batch.zoo.option_checks import CheckedOptions, OptionChecker, as_in_a_zoo
from trtsmith.converter.batch.zoo.option_tables import OptionLayer
from trtsmith.converter.batch.zoo.option_words import one_line
from trtsmith.converter.batch.zoo.toml_lines import Keys
from trtsmith.converter.batch.zoo.zoo_commands import ZooCommands
from trtsmith.converter.batch.zoo.zoo_file import ZooFindings
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
_READ = (*_SHAPES, "freeze", "values", "inputs", "rtol", "atol", "not-compared", "compare")
"""The options that are looked at."""


def array_names(file: Path) -> tuple[str, ...]:
    """The names of the arrays in an .npz file; () for a damaged one."""
    try:
        with zipfile.ZipFile(file) as archive:
            return tuple(name.removesuffix(".npy") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return ()


class ModelLook:
    """One model, loaded once. What is wrong with the file is a finding at the path that names it."""

    def __init__(self, source: ModelSource, commands: ZooCommands, findings: ZooFindings) -> None:
        self._source, self._commands, self._findings = source, commands, findings
        self._model: Model | None = None
        self._freezable: frozenset[str] | None = None
        self._seen: set[tuple[object, ...]] = set()
        self.files: tuple[Path, ...] = ()
        if source.path is not None:
            self.files = (source.path,)
            self._open(source.path)

    def check(self, checked: CheckedOptions, layer: OptionLayer, checker: OptionChecker, keys: Keys) -> None:
        """Findings for inputs and outputs that the model has not, and for shapes and values that do not fit.

        Not for a model that TensorRT could not have whatever its options: converting it says why. keys: of its [[model]].
        """
        model = self._model
        seen = (checked.wrong, *(layer[name].keys for name in _READ if name in layer))
        if seen in self._seen:
            return
        self._seen.add(seen)
        if model is None or any(True for _ in input_problems(model.proto)):
            return
        options = checked.read
        specs = graph_inputs(model.proto)
        outputs = [value.name for value in model.proto.graph.output]
        frozen: Mapping[str, object] = {}
        unsure = bool(checked.wrong & {"inputs", "freeze"})
        try:
            frozen = parse_freeze(options.freeze, model.proto)
        except UsageError as error:
            self._take(error, checker.place(layer, ("freeze",), keys))
            unsure = True
        left = [spec for spec in specs if spec.name not in frozen]
        optional = {spec.name for spec in left} if unsure else self._frozen_by_example(options.inputs)
        if options.inputs is not None and "inputs" not in checked.wrong:
            self._check_arrays(options.inputs, left, checker.place(layer, ("inputs",), keys))
        if not checked.wrong & set(_SHAPES):
            try:
                given = self._commands.shapes(options)
                profile_for(left, {n: s for n, s in given.items() if n not in frozen}, optional=optional)
            except UsageError as error:
                self._take(error, checker.place(layer, _SHAPES, keys))
        if "values" not in checked.wrong:
            try:
                value_profile(left, frozenset(), parse_values(options.values), {})
            except UsageError as error:
                self._take(error, checker.place(layer, ("values",), keys))
        judged = ("rtol", "atol", "not-compared", "compare")
        if not checked.wrong & set(judged):
            try:
                tolerances = parse_tolerances(
                    options.rtol, options.atol, options.not_compared, options.compare
                )
                tolerances.check_outputs(outputs)
            except UsageError as error:
                self._take(error, checker.place(layer, judged, keys))

    def _check_arrays(self, file: Path, specs: Sequence[InputSpec], keys: Keys) -> None:
        """--inputs has an array for each input. Their names are read, and no array."""
        names = array_names(file)
        for spec in specs:
            if spec.name not in names:
                have = ", ".join(map(repr, names[:20])) or "nothing"
                what, expected = (
                    f"no array for input {spec.name!r}",
                    f"an array {spec.name!r}; it holds {have}",
                )
                self._take_one(Problem(what, str(file), expected, "add it"), keys)

    def _frozen_by_example(self, inputs: Path | None) -> Collection[str]:
        """What --inputs has a value of is frozen, where TensorRT wants it constant: such an input needs no shapes."""
        if inputs is None or self._model is None:
            return ()
        if self._freezable is None:
            self._freezable = frozenset(spec.name for spec in graph_inputs(self._model.proto))
            with contextlib.suppress(
                TrtsmithError
            ):  # of functions that converting cannot put in the place of their calls
                self._freezable = freezable(self._model)
        return self._freezable

    def _open(self, path: Path) -> None:
        if path.suffix == PROGRAM_SUFFIX:
            if not zipfile.is_zipfile(path):
                expected, fix = "a file that torch.export.save wrote", "copy or save the program again"
                self._take_one(
                    Problem("the file is no program of torch.export", "", expected, fix), self._source.keys
                )
            return
        try:
            self._model = model = load_model(path)
        except TrtsmithError as error:
            self._take(error, self._source.keys)
            return
        except OSError as error:
            said = f"the model cannot be read: {error.strerror}"
            self._take_one(
                Problem(said, "", "a file that can be read", "make it readable"), self._source.keys
            )
            return
        external = (name for name, file in model.files.items() if file.path != path)
        self.files = (path, *(path.parent / name for name in sorted(external)))

    def _take(self, error: TrtsmithError, keys: Keys) -> None:
        for problem in error.problems:
            self._take_one(problem, keys)

    def _take_one(self, problem: Problem, keys: Keys) -> None:
        about = "" if self._source.text in problem.where else one_line(self._source.text)
        self._findings.take(keys, as_in_a_zoo(problem), about)
