"""Collects the machine's facts that conversions depend on: packages, sources, plugin libraries, operators and the GPU."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.process.package_folders import PACKAGE, SOURCES
from trtsmith.converter.batch.file_hashes import FileHashes, FileState
from trtsmith.converter.engine.builder.flavour import installed_flavours, preferred
from trtsmith.converter.engine.builder.gpu import Gpu, find_gpu
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.operators.package_files import files_of_module, files_of_path, tree
from trtsmith.converter.operators.sources import GROUP, VARIABLE
from trtsmith.importers.problem import Problem

ALWAYS = {
    "onnx": ("onnx",),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
    "numpy": ("numpy",),
    "ml_dtypes": ("ml_dtypes",),
    "onnx_graphsurgeon": ("onnx-graphsurgeon",),
}
"""What every conversion is made with: package, distributions that bring it."""

TORCH = {"torch": ("torch",), "torchvision": ("torchvision",), "onnxscript": ("onnxscript",)}
"""What programs of PyTorch, and functions in PyTorch, are run and exported with."""

CALIBRATION = {
    "modelopt": ("nvidia-modelopt",),
    "onnxconverter_common": ("onnxconverter-common",),
    "onnxslim": ("onnxslim",),
}
"""What int8 and fp8 are calibrated with, beside PyTorch."""

_NOT_READ = frozenset({"__pycache__", "lib", "plugins_cpp"})
"""Of trtsmith's own: plugin libraries are hashed apart, and the headers beside them are for users' operators alone."""

VARIABLES = (
    *("NVIDIA_TF32_OVERRIDE", "CUDA_", "CUBLAS_", "CUBLASLT_", "CUDNN_", "TRT_", "TENSORRT_"),
    *("ORT_", "ONEDNN_", "DNNL_", "MKL_", "ATEN_", "TORCH_", "PYTORCH_"),
)
"""With what the names of variables begin that TensorRT, CUDA, onnxruntime and PyTorch read."""

_NO_INPUT = ("CUDA_VISIBLE_DEVICES",)
"""Each child process gets one of its own; a key has the name of the GPU."""

_OF_ONE_PLACE = re.compile(r"\.dist-info/|__pycache__/")
"""In a distribution's list of files: those that differ from one installation to the next."""

_NAME = re.compile(r"^Name: *(\S+)", re.M)

_LOADER = ("LD_LIBRARY_PATH", "LD_PRELOAD")


@dataclass(frozen=True)
class MachineFacts:
    """Facts of a machine on which a conversion depends.

    versions:  by package, "" for one that is not installed; trtsmith's own too.
    flavours:  versions of the installed TensorRTs, by "tensorrt" and "tensorrt_rtx"; "" if unknown.
    rules:     digest of trtsmith's sources.
    plugins:   digest of trtsmith's plugin library; "" where there is none.
    operators: digest of what TRTSMITH_OPS names; packages: of installed operator packages. "": there are none; None:
        there are some whose files cannot be found.
    gpu:       the first one; None without.
    installed: digests of installed distributions by name: of what they say of themselves, and of the list of their files.
    environment: variables that change a build, and what the folders of the dynamic loader's variables hold.
    files:     those of which the digests were made, as they were then.
    """

    versions: Mapping[str, str]
    flavours: Mapping[str, str]
    rules: str
    plugins: str = ""
    operators: str | None = ""
    packages: str | None = ""
    gpu: Gpu | None = None
    installed: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, FileState] = field(default_factory=dict, compare=False)

    def flavour(self, asked: str) -> str | None:
        """Returns the TensorRT that `--flavour` means on that machine; None: it is not installed there."""
        return preferred(self.flavours, asked, self.gpu is not None)


def this_machine() -> MachineFacts:
    """Collects facts about this process's machine, Python and environment."""
    hashes = FileHashes()
    try:
        plugins = hashes.of(plugin_library())
    except (OSError, UsageError):
        plugins = ""
    points = sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    named = [spec for spec in os.environ.get(VARIABLE, "").split(os.pathsep) if spec]
    return MachineFacts(
        versions={"trtsmith": toolkit_version()}
        | {name: _version(names) for name, names in (ALWAYS | TORCH | CALIBRATION).items()},
        flavours={found.name: found.version for found in installed_flavours()},
        rules=rules_digest(hashes=hashes),
        plugins=plugins,
        operators=operators_digest(named, hashes),
        packages=operators_digest([point.value.partition(":")[0].strip() for point in points], hashes),
        gpu=find_gpu(),
        installed=_installed(),
        environment=_environment(),
        files=hashes.states(),
    )


def _installed() -> dict[str, str]:
    """A wheel that is installed again with the same version has other files; scripts are of one environment."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        said = distribution.read_text("METADATA") or ""  # parsing all takes a second
        listed = (distribution.read_text("RECORD") or "").splitlines()
        lines = sorted(line for line in listed if line[:2] != ".." and not _OF_ONE_PLACE.search(line))
        named = _NAME.search(said)
        name = named[1].lower().replace("_", "-") if named else ""
        found.setdefault(name, hashlib.sha256("\n".join((said, *lines)).encode()).hexdigest())
    return found


def _environment() -> dict[str, str]:
    found = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(VARIABLES) and name not in _NO_INPUT
    }
    for name in _LOADER:
        if listed := [_listed(Path(path)) for path in os.environ.get(name, "").split(os.pathsep) if path]:
            found[name] = hashlib.sha256(repr(listed).encode()).hexdigest()
    return found


def _listed(path: Path) -> list[tuple[str, int, int]]:
    """(name, bytes, time) of the libraries in a folder, or of a library. Hashing TensorRT's would take seconds."""
    try:
        libraries = sorted(path.glob("*.so*")) if path.is_dir() else [path]
        states = [(library.name, library.stat()) for library in libraries]
    except OSError:
        return []
    return [(name, state.st_size, state.st_mtime_ns) for name, state in states]


def _version(distributions: tuple[str, ...]) -> str:
    for name in distributions:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        return version if name == distributions[0] else f"{name} {version}"
    return ""


def operators_digest(specs: Sequence[str], hashes: FileHashes | None = None) -> str | None:
    """Hashes operator packages by SHA-256, without importing any; "" for none, None if one cannot be read."""
    hashes = hashes or FileHashes()
    digests = []
    for spec in specs:
        path = Path(os.path.abspath(spec))
        try:
            root, files = files_of_path(path) if path.exists() else files_of_module(spec)
            folder = root if root.is_dir() else root.parent
            digests.append(_digest(((os.path.relpath(file, folder), file) for file in files), hashes))
        except OSError:
            return None
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else ""


def rules_digest(package: Path = PACKAGE, sources: Path = SOURCES, hashes: FileHashes | None = None) -> str:
    """Hashes names and bytes of trtsmith's Python sources and tables by SHA-256, equal for a checkout and its wheel.

    sources: holds `converter` and `importers`.
    """
    files = dict(_sources(package))
    for folder in ("converter", "importers"):
        files |= {f"{folder}/{name}": path for name, path in _sources(sources / folder)}
    return _digest(sorted(files.items()), hashes or FileHashes())


def _sources(folder: Path) -> Iterator[tuple[str, Path]]:
    paths = (path for path in tree(folder, _NOT_READ) if path.suffix != ".pyc")
    yield from ((path.relative_to(folder).as_posix(), path) for path in paths)


def _digest(files: Iterable[tuple[str, Path]], hashes: FileHashes) -> str:
    listed = list(files)
    hashes.read(path for _, path in listed)
    digest = hashlib.sha256()
    for name, path in listed:
        digest.update(f"{name}\0{hashes.of(path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def machine_problems(here: MachineFacts, machines: Mapping[str, MachineFacts]) -> list[Problem]:
    """Lists differences between machines, by name, that would make results depend on where they are made."""
    problems = []
    for name, there in machines.items():
        parts = (
            ("version", here.versions.get("trtsmith"), there.versions.get("trtsmith")),
            ("sources", here.rules, there.rules),
            ("plugin library", here.plugins, there.plugins),
            ("operators of TRTSMITH_OPS", here.operators, there.operators),
            ("operators of installed packages", here.packages, there.packages),
        )
        if what := "; ".join(f"{part} {_short(b)} there, {_short(a)} here" for part, a, b in parts if a != b):
            problems.append(
                Problem(
                    f"trtsmith differs from the one on this machine: {what}",
                    name,
                    "the same trtsmith, plugin libraries and operators from outside as on this machine",
                    "install the same on every machine of the cluster",
                )
            )
    return problems or list(_unequal(machines))


def _short(value: str | None) -> str:
    return "none" if value == "" else "unreadable" if value is None else value[:12]


def _unequal(machines: Mapping[str, MachineFacts]) -> Iterator[Problem]:
    """Packages of which the machines have several versions. TensorRT, other than TensorRT-RTX, is of use where there is a
    GPU: machines without one may lack it."""
    found = {
        name: {**there.versions, "tensorrt_rtx": "", **there.flavours} for name, there in machines.items()
    }
    for package in sorted({package for versions in found.values() for package in versions}):
        versions = {name: has[package] or "none" for name, has in found.items() if package in has}
        usual = Counter(versions.values()).most_common(1)[0][0]
        others = {name: version for name, version in versions.items() if version != usual}
        if others:
            shown = ", ".join(f"{version} on {name}" for name, version in others.items())
            yield Problem(
                f"the machines have several versions of {package}: {shown}; {usual} on the others",
                ", ".join(others),
                "one version on all machines: a result must not depend on where it was made",
                f"install the same {package} on all machines",
            )
