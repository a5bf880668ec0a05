"""Loads tensorrt 10, tensorrt 11 or tensorrt_rtx, and hides their differences.

Networks are always strongly typed here: TensorRT 11 and TensorRT-RTX know nothing else, and TensorRT 10 is
asked for it, so that one model means the same everywhere. What else differs is a small function, here or in
targets.py; tests/contract holds every name that is used against the bindings of each version.
"""

from __future__ import annotations

import importlib
import importlib.util
import platform
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.gpu import Gpu, find_gpu
from trtsmith.converter.rewrite.target import FLAVOURS, Target, version_of

OLDEST_TENSORRT = (10, 0)
FIRST_RTX_WITH_PLUGINS = (1, 7, 1)  # the ONNX parser of older ones has no plugin importer
_PLUGIN_IMPORTER = b"tensorrt_plugin_shape_input_indices"
"""In the ONNX parser's library: the attribute that a parser reads which imports plugins. Its own version says nothing,
it is 200 with and without them."""

PIP = {
    "tensorrt": "pip install 'tensorrt>=10.3,<12'",
    "tensorrt_rtx": "pip install tensorrt-rtx==1.7.1.116",
}
_DISTRIBUTIONS = {
    "tensorrt": (
        "tensorrt",
        "tensorrt-cu13",
        "tensorrt-cu12",
        "tensorrt-cu13-bindings",
        "tensorrt-cu12-bindings",
    ),
    "tensorrt_rtx": ("tensorrt-rtx", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12"),
}
_DTYPE_NAMES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "FP8": "float8_e4m3fn",
    "FP4": "float4_e2m1fn",
    "E8M0": "float8_e8m0fnu",
}


@dataclass(frozen=True)
class InstalledFlavour:
    """An installed TensorRT. version: "" if no distribution tells it."""

    name: str
    version: str
    distribution: str
    folder: Path


@dataclass(frozen=True)
class Flavour:
    """An imported TensorRT.

    name:            "tensorrt" or "tensorrt_rtx".
    version:         such as (10, 16, 1, 11).
    imports_plugins: whether its ONNX parser can make plugin layers.
    imports_v2:      whether it does so for V2 plugins too.
    """

    module: ModuleType
    name: str
    version: tuple[int, ...]

    @property
    def is_rtx(self) -> bool:
        return self.name == "tensorrt_rtx"

    @property
    def imports_plugins(self) -> bool:
        if not self.is_rtx:
            return True
        library = parser_library()  # it is not always of the core's version
        if library is None:
            return self.version >= FIRST_RTX_WITH_PLUGINS
        return _PLUGIN_IMPORTER in library.read_bytes()

    @property
    def imports_v2(self) -> bool:
        return not self.is_rtx

    @property
    def title(self) -> str:
        return f"{'TensorRT-RTX' if self.is_rtx else 'TensorRT'} {'.'.join(map(str, self.version))}"


def parser_library(maps: Path = Path("/proc/self/maps")) -> Path | None:
    """Finds the loaded ONNX parser library of TensorRT-RTX, on systems that list it, such as Linux."""
    try:
        files = {
            line.split(maxsplit=5)[-1] for line in maps.read_text().splitlines() if "onnxparser_rtx" in line
        }
    except OSError:
        return None
    return next((Path(file) for file in sorted(files)), None)


def any_tensorrt() -> str:
    """Advises how to install any TensorRT. TensorRT-RTX has no wheels for aarch64."""
    if platform.machine() == "aarch64":
        return f"JetPack brings it on a Jetson; elsewhere: {PIP['tensorrt']}"
    return f"{PIP['tensorrt_rtx']}; it needs no GPU to build"


def installed_flavours() -> tuple[InstalledFlavour, ...]:
    """Lists the installed TensorRTs without importing any: an import maps hundreds of megabytes."""
    found = []
    for name in FLAVOURS:
        spec = _find_spec(name)
        if spec is None or spec.origin is None:
            continue
        distribution, version = _distribution(name)
        found.append(InstalledFlavour(name, version, distribution, Path(spec.origin).parent))
    return tuple(found)


def choose_flavour(prefer: str = "auto", gpu: Gpu | None = None) -> str:
    """Names the flavour to load: an explicit choice is honoured or refused, never replaced.

    auto: with a GPU, tensorrt if it is installed, else tensorrt_rtx; without one the other way round, since
    TensorRT-RTX builds engines without a GPU and TensorRT does not.
    Raises UsageError if the choice is unknown or not installed.
    """
    _check_name(prefer)
    installed = [flavour.name for flavour in installed_flavours()]
    found = preferred(installed, prefer, gpu is not None)
    if found is not None:
        return found
    if prefer == "auto":
        raise UsageError(
            "No TensorRT is installed in this Python.",
            "the modules tensorrt and tensorrt_rtx",
            "one of the two",
            any_tensorrt(),
        )
    needs = "; it needs a GPU to build" if prefer == "tensorrt" else ""
    others = f"; or --flavour {installed[0]}, which is installed" if installed else ""
    raise UsageError(
        f"{prefer} is not installed in this Python.",
        f"--flavour {prefer}",
        f"the module {prefer}",
        f"{PIP[prefer]}{needs}{others}",
    )


def preferred(installed: Collection[str], prefer: str, has_gpu: bool) -> str | None:
    """Returns the flavour that `choose_flavour` picks on another machine; None if the requested one is missing there."""
    wanted = (prefer,) if prefer != "auto" else FLAVOURS if has_gpu else FLAVOURS[::-1]
    return next((name for name in wanted if name in installed), None)


def _check_name(prefer: str) -> None:
    if prefer not in (*FLAVOURS, "auto"):
        raise UsageError(
            f"There is no TensorRT flavour {prefer!r}.",
            f"--flavour {prefer}",
            "auto, tensorrt or tensorrt_rtx",
            "give one of those, or leave the flag out",
        )


def expected_target(prefer: str = "auto") -> Target:
    """Returns the TensorRT to write a graph for: the named one, or the one that `choose_flavour` would load.

    Where none is installed it is "tensorrt": its graph has fewer plugins. Its version is that of what is installed, and
    unknown where that is another one. UsageError for a name that is none.
    """
    _check_name(prefer)
    gpu = find_gpu()
    name = prefer
    if prefer == "auto":
        try:
            name = choose_flavour(prefer, gpu)
        except UsageError:
            name = "tensorrt"
    versions = {found.name: found.version for found in installed_flavours()}
    capability = None if gpu is None else gpu.compute_capability
    return Target(name, version_of(versions.get(name, "")), capability)


def load_flavour(prefer: str = "auto") -> Flavour:
    """Imports the flavour that `choose_flavour` picks. Raises UsageError if it does not load or is too old."""
    name = choose_flavour(prefer, find_gpu() if prefer == "auto" else None)
    try:
        module = importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise UsageError(
            f"{name} is installed but does not load: {error}",
            f"import {name}",
            "its bindings and its libraries, of one version",
            f"{PIP[name]}, or put the folder of its libraries on LD_LIBRARY_PATH",
        ) from error
    return wrap_module(module, name)


def wrap_module(module: ModuleType, name: str) -> Flavour:
    """Makes the Flavour of an imported module. Raises UsageError for a TensorRT older than 10."""
    flavour = Flavour(module, name, version_of(module.__version__))
    if not flavour.is_rtx and flavour.version < OLDEST_TENSORRT:
        raise UsageError(
            f"{flavour.title} is too old.",
            f"import {name}",
            "TensorRT 10 or 11, or TensorRT-RTX",
            PIP[name]
            + "; for an older TensorRT write the ONNX file with 'trtsmith rewrite' and build it there",
        )
    return flavour


def network_flags(flavour: Flavour) -> int:
    """Returns the flags of Builder.create_network. EXPLICIT_BATCH is left out: 10 ignores it, 11 lacks it."""
    trt: Any = flavour.module
    return 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)


def field_type(flavour: Flavour, kind: str) -> Any:
    """Returns the PluginFieldType of a field's kind: int32, float32 or string (characters with a NUL)."""
    trt: Any = flavour.module
    types = {
        "int32": trt.PluginFieldType.INT32,
        "float32": trt.PluginFieldType.FLOAT32,
        "string": trt.PluginFieldType.CHAR,
    }
    return types[kind]


def trt_dtype_name(name: str) -> str:
    """Converts the name of a trt.DataType ("BF16") to that of numpy and ml_dtypes ("bfloat16")."""
    return _DTYPE_NAMES.get(name, name.lower())


def _find_spec(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _distribution(name: str) -> tuple[str, str]:
    from importlib import metadata  # takes a while, and nobody asks where no TensorRT is installed

    for distribution in _DISTRIBUTIONS[name]:
        try:
            return distribution, metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return "", ""
