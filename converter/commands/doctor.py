"""trtsmith doctor: versions, GPU, libraries, what is missing and how to get it."""

from __future__ import annotations

import argparse
import platform
from ctypes import CDLL
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from converter import libraries
from converter.build.flavour import PIP, installed_flavours
from converter.build.gpu import find_gpu
from converter.bundle import toolkit_version
from converter.console import Console, table
from converter.errors import EXIT_OK, EXIT_USAGE, TrtsmithError

_PACKAGES = (
    "numpy",
    "onnx",
    "onnx-graphsurgeon",
    "onnxruntime",
    "ml_dtypes",
    "torch",
    "onnxscript",
    "polygraphy",
)


@dataclass(frozen=True)
class Finding:
    """One line: state is "ok", "missing" (nothing works without it) or "absent" (something optional is not there)."""

    what: str
    state: str
    detail: str
    fix: str = ""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "doctor",
        parents=[common],
        help="what is installed, what is missing, how to get it",
        description="Show versions, GPU and libraries, and how to get what is missing.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="as JSON on stdout")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Exit code 2 when something is missing without which no model can be converted."""
    found = examine()
    if options.json:
        console.json([asdict(finding) for finding in found])
    else:
        rows = [(f.state, f.what, f.detail + (f"  fix: {f.fix}" if f.fix else "")) for f in found]
        console.result(table(rows))
    return EXIT_USAGE if any(finding.state == "missing" for finding in found) else EXIT_OK


def examine() -> list[Finding]:
    """Everything that matters, without importing TensorRT."""
    found = [
        Finding("trtsmith", "ok", toolkit_version()),
        Finding("python", "ok", f"{platform.python_version()} on {platform.machine()}"),
    ]
    for package in _PACKAGES:
        optional = package in ("torch", "onnxscript", "polygraphy")
        try:
            found.append(Finding(package, "ok", metadata.version(package)))
        except metadata.PackageNotFoundError:
            extra = {"torch": "torch==2.13.0", "onnxscript": "onnxscript==0.7.2"}.get(package, package)
            state = "absent" if optional else "missing"
            found.append(Finding(package, state, "not installed", f"pip install {extra}"))
    flavours = installed_flavours()
    found += [
        Finding(flavour.name, "ok", f"{flavour.version} ({flavour.distribution})") for flavour in flavours
    ]
    if not flavours:
        found.append(Finding("tensorrt", "missing", "neither TensorRT nor TensorRT-RTX", PIP["tensorrt_rtx"]))
    gpu = find_gpu()
    if gpu is None:
        found.append(Finding("gpu", "absent", "none: engines are built for sm86, and not run"))
    else:
        found.append(Finding("gpu", "ok", f"{gpu.name}, {gpu.target}"))
    for name in ("trtsmith_plugins", "trtsmith_plugins_v2", "trtsmith_host"):
        found.append(_library(name, optional=name == "trtsmith_plugins_v2"))
    return found


def _library(name: str, *, optional: bool) -> Finding:
    try:
        path = libraries.library(name)
        if name == "trtsmith_host":
            CDLL(str(path))
            return Finding(name, "ok", str(path))
        manifest = libraries.manifest(path)
    except TrtsmithError as error:
        return Finding(
            name, "absent" if optional else "missing", error.problems[0].what, error.problems[0].fix
        )
    except OSError as error:
        return Finding(
            name, "missing", f"cannot be loaded: {error}", "rebuild it on this machine: pip install ."
        )
    operators = len(manifest["operators"])
    detail = f"{manifest['interface']}, {operators} operators, sm {manifest['cuda_architectures']}"
    return Finding(name, "ok", f"{path} ({detail})")
