"""Stage: makes the engine where it belongs: here, as a file or in memory, or in a folder from which a device builds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import check_report
from trtsmith.converter.base.own_files import CACHE
from trtsmith.converter.base.progress import Steps
from trtsmith.converter.convert.comparison import GraphComparison
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.facts import coverage
from trtsmith.converter.convert.opening import name_of
from trtsmith.converter.convert.plan import Plan
from trtsmith.converter.convert.pytorch.torch_source import TorchSource
from trtsmith.converter.convert.workarounds.building import MendedBuild, build_mended
from trtsmith.converter.engine.builder.build import check_targets
from trtsmith.converter.engine.builder.build_request import BuildRequest, BuildResult
from trtsmith.converter.engine.builder.deployment import check_settings
from trtsmith.converter.engine.builder.flavour import expected_target
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.engine.bundle.bundle import Bundle, check_output, manifest_path, write_bundle
from trtsmith.converter.engine.bundle.device_folder import (
    check_folder,
    check_names,
    device_libraries,
    not_built,
    write_folder,
)
from trtsmith.converter.engine.bundle.earlier_engine import check_replaced, engines_broken
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.reduction.reproducer import check_refused_path
from trtsmith.converter.rewrite.rewrite import Rewritten

_FIRST_WITH_PLUGINS = 75
"""The compute capability from which on plugin libraries have kernels."""


class Here:
    """The engine is built on this machine; without an output it stays in memory."""

    def __init__(self, options: ConvertOptions) -> None:
        self._options = options

    def check(self) -> None:
        """Checks files and settings before any work. Raises UsageError."""
        options = self._options
        self._check_output(options.plugins)
        _check_other_files(options)
        check_settings(expected_target(options.flavour).flavour, options.settings, find_gpu() is not None)
        if options.targets and isinstance(options.model, TorchSource):  # its export can take minutes
            check_targets(options.flavour, options.targets)

    def check_graph(self, rewritten: Rewritten, libraries: tuple[Path, ...]) -> None:
        """Checks what is known only with the graph. libraries: of its plugins. Raises UsageError."""
        del rewritten
        self._check_output(libraries)
        old = [target for target in self._options.targets if int(target[2:]) < _FIRST_WITH_PLUGINS]
        if libraries and old:
            what = f"the model needs plugins, which have no kernels for {old[0]}"
            expected = f"GPUs from Turing (sm{_FIRST_WITH_PLUGINS}) on"
            raise UsageError(what, f"--target {','.join(self._options.targets)}", expected, "--target t4")

    def build(
        self, rewritten: Rewritten, request: BuildRequest, comparison: GraphComparison, progress: Steps
    ) -> MendedBuild:
        comparison.begin()
        return build_mended(rewritten.model, request, self._options.refusals, progress, comparison.stop)

    def warnings(self, planned: Plan, built: BuildResult) -> tuple[str, ...]:
        return coverage(planned, built)

    def write(
        self,
        rewritten: Rewritten,
        request: BuildRequest,
        built: BuildResult,
        comparison: GraphComparison,
        facts: Mapping[str, Any],
    ) -> Bundle | bytes:
        """The engine's files; without an output, its bytes."""
        options = self._options
        if options.output is None:
            return built.engine_path.read_bytes() if options.keep else b""
        broken = tuple(engines_broken(options.output, request.plugin_libraries))
        written = write_bundle(built.engine_path, options.output, request.plugin_libraries, facts)
        return replace(written, warnings=(*written.warnings, *broken))

    def _check_output(self, libraries: tuple[Path, ...]) -> None:
        options = self._options
        if options.output is None:
            return
        model = options.model if isinstance(options.model, Path) else None
        check_output(options.output, model, libraries)
        missing = model is not None and not model.exists()  # which loading it will say
        if not options.force and not missing:
            check_replaced(options.output, name_of(options.model), libraries)


class OnDevice:
    """A device builds the engine, from a folder with all that it needs. output: the folder."""

    def __init__(self, options: ConvertOptions, output: Path) -> None:
        self._options, self._output = options, output
        self._libraries: Mapping[str, bytes] = {}

    def check(self) -> None:
        """Checks files before any work. Raises UsageError."""
        check_folder(self._output)
        _check_other_files(self._options)

    def check_graph(self, rewritten: Rewritten, libraries: tuple[Path, ...]) -> None:
        """Checks the graph's names, and finds the libraries' builds for the device. Raises UsageError."""
        check_folder(self._output)
        check_names(rewritten.model.proto.graph)
        if libraries:
            others = [path for path in libraries if path.name != plugin_library().name]
            wheel = self._options.plugins_aarch64
            self._libraries = device_libraries(self._options.bundle_for, wheel, others)

    def build(
        self, rewritten: Rewritten, request: BuildRequest, comparison: GraphComparison, progress: Steps
    ) -> MendedBuild:
        return MendedBuild(not_built(rewritten.model, request), rewritten.model, ())

    def warnings(self, planned: Plan, built: BuildResult) -> tuple[str, ...]:
        return ()

    def write(
        self,
        rewritten: Rewritten,
        request: BuildRequest,
        built: BuildResult,
        comparison: GraphComparison,
        facts: Mapping[str, Any],
    ) -> Bundle | bytes:
        """The folder, with inputs, and outputs to compare with."""
        there = comparison.elsewhere(rewritten)
        tolerances = self._options.tolerances
        accepted = () if tolerances is None else tolerances.not_compared
        outputs = there.entries([tensor.name for tensor in built.outputs], accepted)
        arrays = {"inputs": there.inputs, "expected": there.expected, "bounds": there.bounds}
        model, libraries = rewritten.model, self._libraries
        return write_folder(self._output, model, request, libraries, arrays, outputs, facts)


Destination = Here | OnDevice


def destination_of(options: ConvertOptions) -> Destination:
    """Where the engine is built."""
    if options.bundle_for and options.output is not None:
        return OnDevice(options, options.output)
    return Here(options)


def _check_other_files(options: ConvertOptions) -> None:
    """UsageError for files beside the output that could not be written, or would replace others."""
    output = options.output
    written = () if output is None else (output, manifest_path(output))
    files = (options.model, *written, options.inputs, options.expected, *options.plugins)
    check_refused_path(options.refusals.file, files, force=options.force)
    cache = options.timing_cache
    check_report(cache, files, "--timing-cache", "the timing cache", CACHE, force=options.force)
