"""Reads a zoo's file into tasks, or into every problem with it at once. docs/reference/zoo-files.md describes the file.

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

from pathlib import Path

from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.zoo.model_look import ModelLook
from trtsmith.converter.batch.zoo.option_checks import CheckedOptions, OptionChecker
from trtsmith.converter.batch.zoo.option_tables import OptionLayer, merged
from trtsmith.converter.batch.zoo.option_words import shown
from trtsmith.converter.batch.zoo.task_files import depends_on_modules, files_of
from trtsmith.converter.batch.zoo.zoo_commands import ZooCommands
from trtsmith.converter.batch.zoo.zoo_entries import ZooModel, ZooSettings, read_defaults, read_models
from trtsmith.converter.batch.zoo.zoo_file import ZooFindings, read_zoo_file
from trtsmith.converter.batch.zoo.zoo_matrix import MatrixAxis
from trtsmith.converter.batch.zoo.zoo_variants import ModelVariant, VariantMaker


def read_zoo(path: Path, commands: ZooCommands) -> tuple[BatchTask, ...]:
    """The tasks, in the order of the file. commands: trtsmith.converter.cli.batch_options.zoo_commands().

    UsageError with all problems, each with its line: of the file, of options, and of models, which are looked at without
    their weights. Runs nothing, and loads no plugin library and no module of the user's.
    """
    file = read_zoo_file(path)
    findings = ZooFindings(file)
    defaults = read_defaults(file.document, commands, findings)
    entries = read_models(file.document, commands, findings)
    reader = _TaskReader(defaults, commands, findings)
    for settings in (defaults, *entries.settings):
        reader.check(settings)
    tasks = [task for model in entries.models for task in reader.tasks(model)]
    reader.finish(complete=entries.complete)
    findings.raise_any()
    return tuple(tasks)


class _TaskReader:
    """The models of one zoo, one after another: each is opened once, and closed before the next."""

    def __init__(self, defaults: ZooSettings, commands: ZooCommands, findings: ZooFindings) -> None:
        self._defaults, self._commands, self._findings = defaults, commands, findings
        self._convert = OptionChecker(commands.convert, findings)
        self._bench = OptionChecker(commands.bench, findings)
        self._variants = VariantMaker(defaults, commands.convert, findings)
        self._named: dict[CheckedOptions, tuple[Path, ...]] = {}

    def tasks(self, model: ZooModel) -> list[BatchTask]:
        look = ModelLook(model.source, self._commands, self._findings)
        variants = self._variants.variants(model)
        bench = self._bench_options(model)
        made = [self._task(model, variant, bench, look, alone=len(variants) == 1) for variant in variants]
        return [task for task in made if task is not None]

    def check(self, settings: ZooSettings) -> None:
        """Every option by itself, also those that no task has."""
        self._convert.words(settings.options)
        for axis in settings.matrix.axes.values():
            for value in axis.values:
                self._convert.words(value.options)
            self._check_same(axis)
        if isinstance(settings.bench, dict):
            self._bench.words(settings.bench)

    def _check_same(self, axis: MatrixAxis) -> None:
        """A finding for values that are written differently, and mean the same."""
        given = [value.options[axis.option] for value in axis.values if axis.option in value.options]
        for place, one in enumerate(given):
            same = [
                other for other in given[:place] if self._convert.value(other) == self._convert.value(one)
            ]
            if same and self._convert.value(one) is not None:
                what = f"{shown(same[0].value)} and {shown(one.value)} of the axis {axis.name} are the same"
                self._findings.add(one.keys, what, "each value once", "remove one")

    def finish(self, *, complete: bool) -> None:
        """What only shows when all models were read. complete: whether all were found."""
        self._variants.finish(complete=complete)

    def _task(
        self,
        model: ZooModel,
        variant: ModelVariant,
        bench: OptionLayer | None,
        look: ModelLook,
        *,
        alone: bool,
    ) -> BatchTask | None:
        checked = self._convert.options(variant.options, model.keys)
        timing = self._bench.options(bench or {}, model.keys)
        if checked is not None:
            look.check(checked, variant.options, self._convert, model.keys)
        if checked is None or timing is None or not (checked.sound and timing.sound):
            return None
        options = checked.read
        return BatchTask(
            name=model.name if alone else f"{model.name}/{variant.name}",
            model=model.name,
            source=model.source.text,
            words=self._convert.words(variant.options),
            files=tuple(dict.fromkeys((*look.files, *self._files(checked), *self._files(timing)))),
            variant=variant.labels,
            bench=None if bench is None else self._bench.words(bench),
            needs=variant.needs,
            hashed=model.source.path is not None and not depends_on_modules(options),
            line=self._findings.file.line(model.keys),
        )

    def _files(self, checked: CheckedOptions) -> tuple[Path, ...]:
        """The files that options name: most tasks of a matrix have the options of others."""
        if checked not in self._named:
            self._named[checked] = files_of(checked.read)
        return self._named[checked]

    def _bench_options(self, model: ZooModel) -> OptionLayer | None:
        own, general = model.settings.bench, self._defaults.bench
        if own is None:
            own = general
        if not isinstance(own, dict):
            return None
        return merged(self._commands.bench, general if isinstance(general, dict) else {}, own)
