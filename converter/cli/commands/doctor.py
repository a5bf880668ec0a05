"""trtsmith doctor: shows versions, GPU and libraries, and how to get what is missing."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from ctypes import CDLL
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from trtsmith.converter.base.errors import EXIT_OK, EXIT_USAGE, TrtsmithError
from trtsmith.converter.cli.console import Console, table
from trtsmith.converter.engine import libraries
from trtsmith.converter.engine.builder.flavour import InstalledFlavour, any_tensorrt, installed_flavours
from trtsmith.converter.engine.builder.gpu import Gpu, find_gpu
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.engine.runtime.device import PACKAGES, missing_packages
from trtsmith.flags import add_options
from trtsmith.options import Operators

if TYPE_CHECKING:
    from trtsmith.importers.operator_package import OperatorPackage

DESCRIPTION = "Show versions, GPU and libraries, and how to get what is missing."

EPILOG = """examples:
  trtsmith doctor
  trtsmith doctor --json
"""

_PACKAGES = (
    "numpy",
    "onnx",
    "onnx-graphsurgeon",
    "onnxruntime",
    "ml_dtypes",
    "torch",
    "onnxscript",
    "polygraphy",
    "cuda-core",
    "cuda-bindings",
)
_OPTIONAL = {
    "torch": "pip install torch==2.13.0",
    "onnxscript": "pip install onnxscript==0.7.2",
    "polygraphy": "pip install 'polygraphy>=0.53.6,<0.54'",
    "cuda-core": PACKAGES,
    "cuda-bindings": PACKAGES,
}
"""How to get what a part of the commands does without."""


@dataclass(frozen=True)
class DoctorLine:
    """One line: state is "ok", "missing" (nothing works without it) or "absent" (it is optional)."""

    what: str
    state: str
    detail: str
    fix: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON on stdout")
    add_options(parser, Operators)
    parser.set_defaults(operators=False)


STATES = ("ok", "absent", "missing")
"""What DoctorLine.state can be."""


def run(options: argparse.Namespace, console: Console) -> int:
    """Shows the lines. Exit code 2 if something is missing that every conversion needs."""
    found = [*examine(), *examine_packages(options.ops, installed=options.plugins_from_packages)]
    if options.json:
        console.json([asdict(finding) for finding in found])
    else:
        rows = [(f.state, f.what, f.detail + (f"  fix: {f.fix}" if f.fix else "")) for f in found]
        console.result(table(rows), STATES)
    return EXIT_USAGE if any(finding.state == "missing" for finding in found) else EXIT_OK


def examine() -> list[DoctorLine]:
    """Examines everything that matters, without importing TensorRT."""
    found = [
        DoctorLine("trtsmith", "ok", toolkit_version()),
        DoctorLine("python", "ok", f"{platform.python_version()} on {platform.machine()}"),
    ]
    for package in _PACKAGES:
        try:
            found.append(DoctorLine(package, "ok", metadata.version(package)))
        except metadata.PackageNotFoundError:
            state = "absent" if package in _OPTIONAL else "missing"
            fix = _OPTIONAL.get(package, f"pip install {package}")
            found.append(DoctorLine(package, state, "not installed", fix))
    flavours = installed_flavours()
    found += [
        DoctorLine(flavour.name, "ok", f"{flavour.version} ({flavour.distribution})") for flavour in flavours
    ]
    if not flavours:
        found.append(DoctorLine("tensorrt", "missing", "neither TensorRT nor TensorRT-RTX", any_tensorrt()))
    gpu = find_gpu()
    if gpu is None:
        found.append(DoctorLine("gpu", "absent", "none: engines are built for sm86, and cannot run here"))
    else:
        found.append(DoctorLine("gpu", "ok", f"{gpu.name}, {gpu.target}"))
    found.append(_running(gpu, flavours))
    for name in ("trtsmith_plugins", "trtsmith_plugins_v2", "trtsmith_host"):
        found.append(_library(name, optional=name == "trtsmith_plugins_v2"))
    return found


def examine_packages(specs: Sequence[str], *, installed: bool) -> list[DoctorLine]:
    """Imports the packages of operators from outside, and examines their libraries."""
    try:
        from trtsmith.converter.operators.loading import operators_in_force
        from trtsmith.importers.registry import packages_in_force
    except ImportError:  # a package without which nothing works, as the lines above say
        return []
    try:
        with operators_in_force(specs, installed=installed):
            return [_package(package) for package in packages_in_force()]
    except TrtsmithError as error:
        return [DoctorLine("operators", "missing", problem.what, problem.fix) for problem in error.problems]


def _package(package: OperatorPackage) -> DoctorLine:
    """Whether each operator of the package has a plugin compiled from its current definition."""
    from trtsmith.converter.operators.compiled import compiled_operators

    names = [op.name for op in package.operators]
    found, problems = compiled_operators(names)
    detail = f"{', '.join(names)} of {package.name}"
    if problems:
        return DoctorLine("operators", "absent", f"{detail}; {problems[0].what}", problems[0].fix)
    where = ", ".join(f"{library.path} (sm {library.architectures})" for library in found)
    return DoctorLine("operators", "ok", f"{detail}; {where}")


def _running(gpu: Gpu | None, flavours: Sequence[InstalledFlavour]) -> DoctorLine:
    """Whether an engine can run here, judging by what is installed."""
    packages = missing_packages()
    lacking = [
        what
        for what, there in (("GPU", gpu), ("TensorRT", flavours), ("cuda-core", packages is None))
        if not there
    ]
    if not lacking:
        return DoctorLine("running engines", "ok", "trtsmith run, verify and bench work here")
    detail = f"trtsmith run, verify and bench cannot run here; missing: {', '.join(lacking)}"
    return DoctorLine("running engines", "absent", detail, packages.fix if packages else "")


def _library(name: str, *, optional: bool) -> DoctorLine:
    try:
        path = libraries.library(name)
        if name == "trtsmith_host":
            CDLL(str(path))
            return DoctorLine(name, "ok", str(path))
        manifest = libraries.manifest(path)
    except TrtsmithError as error:
        return DoctorLine(
            name, "absent" if optional else "missing", error.problems[0].what, error.problems[0].fix
        )
    except OSError as error:
        return DoctorLine(
            name, "missing", f"cannot be loaded: {error}", "rebuild it on this machine: pip install ."
        )
    operators = len(manifest["operators"])
    detail = f"{manifest['interface']}, {operators} operators, sm {manifest['cuda_architectures']}"
    return DoctorLine(name, "ok", f"{path} ({detail})")
