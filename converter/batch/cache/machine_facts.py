"""Says what a conversion depends on that is no file of its task: packages, rules, plugin libraries, and the GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata

from trtsmith.converter.batch.cache.file_hashes import FileHashes
from trtsmith.converter.batch.cache.source_digest import operators_digest, packages_digest, rules_digest
from trtsmith.converter.engine.build.flavour import installed_flavours, preferred
from trtsmith.converter.engine.build.gpu import Gpu, find_gpu
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.operators.sources import VARIABLE

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


@dataclass(frozen=True)
class MachineFacts:
    """What a machine brings to a conversion. It pickles: a machine of a cluster can say it of itself.

    versions:  by package, "" for one that is not installed; trtsmith's own too.
    flavours:  versions of the TensorRTs that are installed, by "tensorrt" and "tensorrt_rtx"; "" where nobody says it.
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
    gpu: Gpu | None = field(default=None)

    def flavour(self, asked: str) -> str | None:
        """The TensorRT that `--flavour` means on that machine; None: it is not installed there."""
        return preferred(self.flavours, asked, self.gpu is not None)


def this_machine() -> MachineFacts:
    """Of the machine, the Python and the environment that this process has."""
    return MachineFacts(
        versions={"trtsmith": toolkit_version()}
        | {name: _version(names) for name, names in (ALWAYS | TORCH | CALIBRATION).items()},
        flavours={found.name: found.version for found in installed_flavours()},
        rules=rules_digest(),
        plugins=_plugins(),
        operators=operators_digest(os.environ.get(VARIABLE, "")),
        packages=packages_digest(),
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


def _plugins() -> str:
    try:
        return FileHashes().of(plugin_library())
    except (OSError, UsageError):
        return ""
