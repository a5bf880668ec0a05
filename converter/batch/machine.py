"""Collects the machine's part of a conversion: packages, trtsmith's sources, plugin libraries, operators, and the GPU."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from trtsmith.converter.batch.file_hashes import hash_file
from trtsmith.converter.engine.build.flavour import installed_flavours, preferred
from trtsmith.converter.engine.build.gpu import Gpu, find_gpu
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.process.package_folders import PACKAGE, SOURCES
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


@dataclass(frozen=True)
class MachineFacts:
    """What a machine brings to a conversion.

    versions:  by package, "" for one that is not installed; trtsmith's own too.
    flavours:  versions of the installed TensorRTs, by "tensorrt" and "tensorrt_rtx"; "" if unknown.
    rules:     digest of trtsmith's sources.
    plugins:   digest of trtsmith's plugin library; "" where there is none.
    operators: digest of what TRTSMITH_OPS names; packages: of installed operator packages. "": there are none; None:
        there are some whose files cannot be found.
    gpu:       the first one; None without.
    """

    versions: Mapping[str, str]
    flavours: Mapping[str, str]
    rules: str
    plugins: str = ""
    operators: str | None = ""
    packages: str | None = ""
    gpu: Gpu | None = None

    def flavour(self, asked: str) -> str | None:
        """The TensorRT that `--flavour` means on that machine; None: it is not installed there."""
        return preferred(self.flavours, asked, self.gpu is not None)


def this_machine() -> MachineFacts:
    """Facts about this process's machine, Python and environment."""
    try:
        plugins = hash_file(Path(os.path.realpath(plugin_library())))[0]
    except (OSError, UsageError):
        plugins = ""
    points = sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return MachineFacts(
        versions={"trtsmith": toolkit_version()}
        | {name: _version(names) for name, names in (ALWAYS | TORCH | CALIBRATION).items()},
        flavours={found.name: found.version for found in installed_flavours()},
        rules=rules_digest(),
        plugins=plugins,
        operators=operators_digest([spec for spec in os.environ.get(VARIABLE, "").split(os.pathsep) if spec]),
        packages=operators_digest([point.value.partition(":")[0].strip() for point in points]),
        gpu=find_gpu(),
    )


def _version(distributions: tuple[str, ...]) -> str:
    for name in distributions:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        return version if name == distributions[0] else f"{name} {version}"
    return ""


def operators_digest(specs: Sequence[str]) -> str | None:
    """SHA-256 over operator packages, without importing any; "" for none, None where one cannot be read."""
    digests = []
    for spec in specs:
        root = _root_of(spec)
        try:
            digests.append(folder_digest(root) if root.is_dir() else _file_digest(root))
        except OSError:
            return None
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else ""


def _root_of(spec: str) -> Path:
    """The outermost folder of the package that a spec names, or the file of a module that lies in none."""
    path = Path(os.path.abspath(spec))
    if not path.exists():
        found = PathFinder.find_spec(spec.partition(".")[0])
        path = path if found is None or found.origin is None else Path(found.origin)
    path = path.parent if path.name == "__init__.py" else path
    while (path.parent / "__init__.py").exists():
        path = path.parent
    return path


def rules_digest(package: Path = PACKAGE, sources: Path = SOURCES) -> str:
    """SHA-256 over names and bytes of trtsmith's own Python sources and tables, equal for a checkout and its wheel.

    sources: holds `converter` and `importers`.
    """
    files = dict(_files(package, _NOT_READ))
    for folder in ("converter", "importers"):
        files |= {f"{folder}/{name}": path for name, path in _files(sources / folder, _NOT_READ)}
    return _digest(sorted(files.items()))


def _file_digest(file: Path) -> str:
    libraries = sorted((file.parent / "lib").glob("lib*_plugins*.so"))
    return _digest((path.name, path) for path in (file, *libraries))


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names and bytes of all files in a folder but compiled ones; links to folders are followed."""
    return _digest(sorted(_files(folder, frozenset({"__pycache__"}))))


def _files(folder: Path, left_out: frozenset[str]) -> Iterator[tuple[str, Path]]:
    seen = set()
    for above, folders, names in os.walk(folder, followlinks=True):
        seen.add(os.path.realpath(above))
        folders[:] = [
            name
            for name in folders
            if name not in left_out and os.path.realpath(os.path.join(above, name)) not in seen
        ]
        paths = (Path(above, name) for name in names if not name.endswith(".pyc"))
        yield from ((path.relative_to(folder).as_posix(), path) for path in paths if path.is_file())


def _digest(files: Iterator[tuple[str, Path]] | list[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, path in files:
        data = path.read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode(errors="surrogateescape") + data)
    return digest.hexdigest()


def machine_problems(here: MachineFacts, machines: Mapping[str, MachineFacts]) -> list[Problem]:
    """All that keeps machines, by their names, from doing one batch: a result must not depend on where it was made."""
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
