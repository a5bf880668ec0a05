"""Defines the public functions for reports, operators and plugin libraries; each other function has its own module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trtsmith.argument_types import checked_types
from trtsmith.arguments import logged, with_operators
from trtsmith.converter.base.options.kinds import Paths, Progress, StrPath
from trtsmith.converter.convert import reports
from trtsmith.converter.convert.reports import Report
from trtsmith.converter.plugin.cases import contract_cases, gpu_cases
from trtsmith.converter.plugin.contract import ContractCase, LibraryReport
from trtsmith.converter.plugin.test import test_library
from trtsmith.importers import registry
from trtsmith.importers.opdef import OpDef


@checked_types()
def load_report(path: StrPath) -> Report:
    """Reads a report that `check`, `convert` or `verify` wrote, or the manifest of an engine.

    >>> import trtsmith
    >>> report = trtsmith.load_report("model.manifest.json")
    >>> report.kind, report.passed, report.verdict.status
    ('manifest', True, 'agree')
    >>> report.routes
    {'native': 1, 'plugin': 1}

    Raises UsageError for any other file.
    """
    return reports.load_report(Path(path))


@with_operators()
def check_plugin(
    library: StrPath,
    *,
    gpu: bool | None = None,
    cases: Sequence[ContractCase] = (),
    timeout: float = 120.0,
    ops: Paths = (),
    plugins_from_packages: bool = True,
    progress: Progress | None = None,
) -> LibraryReport:
    """Tests every plugin of a TensorRT plugin library against TensorRT's contract, without TensorRT. Runs its code.

    library: the shared library, of IPluginV3 or IPluginV2 plugins.
    gpu:     whether to run kernels; None: if there is a GPU.
    cases:   test cases of plugins without an operator definition (trtsmith.converter.plugin.contract.ContractCase).
    timeout: time limit of one check, in seconds.

    Other arguments are those of `convert`. In the result, `ok` says whether no check found a broken contract (advice
    does not count), and `render()` is the report.

    >>> import trtsmith
    >>> report = trtsmith.check_plugin("libtrtsmith_plugins.so", gpu=False)  # doctest: +SKIP
    >>> report.ok  # doctest: +SKIP
    True

    Raises UsageError for a library that does not load, and for `gpu=True` without a GPU.
    """
    tell = logged(progress)
    return test_library(
        Path(library),
        gpu=gpu,
        definitions=(*contract_cases(), *cases),
        gpu_cases=gpu_cases,
        timeout_s=timeout,
        progress=lambda result: tell(f"{result.verdict.value}: {result.creator}: {result.check}"),
    )


@with_operators()
def operators(*, ops: Paths = (), plugins_from_packages: bool = True) -> tuple[OpDef, ...]:
    """Lists the operators that trtsmith knows: its own, those of `ops`, and those of installed packages.

    >>> import trtsmith
    >>> "torchvision" in {domain for op in trtsmith.operators() for alias in op.aliases for domain in alias.domains}
    True
    """
    return registry.operators()
