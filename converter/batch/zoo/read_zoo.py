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
from trtsmith.converter.batch.zoo.option_checks import OptionChecker
from trtsmith.converter.batch.zoo.option_tables import OptionLayer, merged
from trtsmith.converter.batch.zoo.task_files import depends_on_modules, files_of
from trtsmith.converter.batch.zoo.zoo_commands import ZooCommands
from trtsmith.converter.batch.zoo.zoo_entries import ZooModel, ZooSettings, read_defaults, read_models
from trtsmith.converter.batch.zoo.zoo_file import Findings, read_zoo_file
from trtsmith.converter.batch.zoo.zoo_variants import ModelVariant, VariantMaker


def read_zoo(path: Path, commands: ZooCommands) -> tuple[BatchTask, ...]:
    """The tasks, in the order of the file. commands: trtsmith.converter.cli.batch_options.zoo_commands().

    UsageError with all problems, each with its line: of the file, of options, and of models, which are looked at without
    their weights. Runs nothing, and loads no plugin library and no module of the user's.
    """
    file = read_zoo_file(path)
    findings = Findings(file)
    defaults = read_defaults(file.document, commands, findings)
    models, entries = read_models(file.document, commands, findings)
    reader = _TaskReader(defaults, commands, findings)
    for settings in (defaults, *entries):
        reader.check(settings)
    tasks = [task for model in models for task in reader.tasks(model)]
    reader.finish()
    findings.raise_any()
    return tuple(tasks)


class _TaskReader:
    """The models of one zoo, one after another: each is opened once, and closed before the next."""

    def __init__(self, defaults: ZooSettings, commands: ZooCommands, findings: Findings) -> None:
        self._defaults, self._commands, self._findings = defaults, commands, findings
        self._convert = OptionChecker(commands.convert, findings)
        self._bench = OptionChecker(commands.bench, findings)
        self._variants = VariantMaker(defaults, commands.convert, findings)

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
        if isinstance(settings.bench, dict):
            self._bench.words(settings.bench)

    def finish(self) -> None:
        """What only shows when all models were read."""
        self._variants.finish()

    def _task(
        self,
        model: ZooModel,
        variant: ModelVariant,
        bench: OptionLayer | None,
        look: ModelLook,
        *,
        alone: bool,
    ) -> BatchTask | None:
        options = self._convert.options(variant.options, model.keys)
        timing = None if bench is None else self._bench.options(bench, model.keys)
        if options is None or (bench is not None and timing is None):
            return None
        look.check(options, variant.options, self._convert, model.keys)
        return BatchTask(
            name=model.name if alone else f"{model.name}/{variant.name}",
            model=model.name,
            source=model.source.text,
            words=self._convert.words(variant.options) or (),
            files=tuple(dict.fromkeys((*look.files, *files_of(*filter(None, (options, timing)))))),
            variant=variant.labels,
            bench=None if bench is None else self._bench.words(bench),
            needs=variant.needs,
            hashed=model.source.path is not None and not depends_on_modules(options),
            line=self._findings.file.line(model.keys),
        )

    def _bench_options(self, model: ZooModel) -> OptionLayer | None:
        own, general = model.settings.bench, self._defaults.bench
        if own is None:
            own = general
        if not isinstance(own, dict):
            return None
        return merged(self._commands.bench, general if isinstance(general, dict) else {}, own)
