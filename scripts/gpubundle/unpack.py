"""Makes a bundle usable on the GPU machine: checks files, installs wheels, sets the environment. Standard library only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpubundle.chunks import BundleError, collect, restore

WHEEL_FOLDER = "wheels"
LIBRARY_FOLDER = "lib"
MODEL_FOLDER = "models"
BROKEN_LIBRARY = "libbroken.so"
SITE = "site"
PARTS = "parts"
RTX_LIBRARY = "libtensorrt_rtx.so"
RTX_PARSER = "libtensorrt_onnxparser_rtx.so.1"
RIG_FOLDER = "rig"
"""The parser that imports plugins: of a newer TensorRT-RTX than the wheels, and put in the place of theirs."""

_RIG_LINES = """
from rig_parser import rig_parser as _rig_parser

OnnxParser = _rig_parser(OnnxParser)
"""


def unpack(folders: Sequence[Path], target: Path) -> list[str]:
    """Takes chunks in, and installs once all are there. Returns the names of missing parts.

    Chunks may come one call at a time and more than once. A bundle that is installed already is left as it is.
    """
    parts, missing = collect(folders, target / PARTS)
    if missing or (target / SITE).is_dir():
        return missing
    restore(parts, target / PARTS, target)
    wheels = sorted((target / WHEEL_FOLDER).glob("*.whl"))
    partial = target / f"{SITE}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    _install(wheels, partial)
    _name_rtx_library(target)
    if (target / RIG_FOLDER).is_dir():
        _assemble_rig(target / RIG_FOLDER, partial)
    partial.rename(target / SITE)  # the last step: its presence says that all before it is done
    return []


def variables(target: Path) -> dict[str, str]:
    """The environment variables of a process that uses the unpacked bundle, to be prepended."""
    return {
        "PYTHONPATH": str(target / SITE),
        "LD_LIBRARY_PATH": str(target / LIBRARY_FOLDER),
        "TRTSMITH_LIBRARY_DIR": str(target / LIBRARY_FOLDER),
    }


def with_bundle(target: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that uses the unpacked bundle."""
    result = dict(environment)
    for name, value in variables(target.resolve()).items():
        before = environment.get(name) if name.endswith("PATH") else None
        result[name] = f"{value}{os.pathsep}{before}" if before else value
    return result


def model_folder(target: Path) -> Path:
    return target.resolve() / MODEL_FOLDER


def exports(target: Path) -> str:
    """The same as lines for a shell's `eval`."""
    lines = []
    for name, value in variables(target).items():
        before = f"${{{name}:+:${name}}}" if name.endswith("PATH") else ""
        lines.append(f"export {name}='{value}'{before}")
    return "\n".join(lines)


def _install(wheels: Sequence[Path], site: Path) -> None:
    if not wheels:
        site.mkdir()
        return
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-index", "--no-deps", "--no-compile", "--target", str(site), *map(str, wheels)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise BundleError(
            f"pip does not install the bundle's wheels: {said}",
            " ".join(path.name for path in wheels),
            "the Python and platform for which the bundle was packed",
            f"use that Python instead of {sys.version.split()[0]}, or pack a bundle for this one",
        )


def _name_rtx_library(target: Path) -> None:
    """Adds the plain library name by which TensorRT-RTX's parser may open it, and which the wheel lacks."""
    link = target / LIBRARY_FOLDER / RTX_LIBRARY
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(Path("..") / SITE / "tensorrt_rtx_libs" / f"{RTX_LIBRARY}.1")


def _assemble_rig(rig: Path, site: Path) -> None:
    """Puts the newer parser beside the older core, and rig_parser.py, which explains this, into the packages."""
    shutil.copyfile(rig / RTX_PARSER, site / "tensorrt_rtx_libs" / RTX_PARSER)
    shutil.copyfile(Path(__file__).with_name("rig_parser.py"), site / "rig_parser.py")
    with open(site / "tensorrt_rtx" / "__init__.py", "a") as package:
        package.write(_RIG_LINES)
