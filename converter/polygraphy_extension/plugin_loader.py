"""Registers trtsmith's plugins with Polygraphy's TensorRT if a model needs them.

Its own `--plugins` opens libraries with dlopen, which registers nothing of a library that TensorRT loads by getCreators.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from polygraphy import config as polygraphy_config
from polygraphy import util
from polygraphy.backend.base import BaseLoader

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.polygraphy_extension.polygraphy_log import known, problems_logged, progress
from trtsmith.importers.opdef import PLUGIN_NAMESPACE

_RTX = "libtensorrt_rtx.so"


@dataclass(eq=False, repr=False)
class LoadTrtsmithPlugins(BaseLoader):  # type: ignore[misc]  # Polygraphy has no types
    """Passes on a model, after loading the plugin libraries of its nodes into TensorRT's registry.

    They are ours, and those beside the definitions of operators from outside.

    model: an onnx.ModelProto, or a callable that gives one.
    ops, packages: definitions of operators from outside, and whether those of installed packages count.
    """

    model: object
    ops: Sequence[str] | None = None
    packages: bool | None = None

    @util.check_called_by("__call__")  # type: ignore[untyped-decorator]
    def call_impl(self) -> Any:
        """Returns the model."""
        from trtsmith.importers.expansion import plugin_nodes

        model, _ = util.invoke_if_callable(self.model)
        with problems_logged(), known(self.ops, self.packages):
            names = {node.op_type for node in plugin_nodes(model.graph)}
            if names:
                _load(names)
        return model


def _load(names: set[str]) -> None:
    """Loads the libraries of these operators, except those whose plugins are registered."""
    from polygraphy.backend.trt import get_trt_logger

    from trtsmith.converter.engine.builder.flavour import load_flavour
    from trtsmith.converter.engine.builder.plugins import registered
    from trtsmith.converter.engine.libraries import plugin_library
    from trtsmith.converter.engine.runtime.loading import load_plugins
    from trtsmith.converter.engine.runtime.runtime_log import process_log
    from trtsmith.converter.operators.compiled import compiled_operators
    from trtsmith.importers.registry import package_of

    if polygraphy_config.USE_TENSORRT_RTX:
        _check_rtx_name()
    flavour = load_flavour("tensorrt_rtx" if polygraphy_config.USE_TENSORRT_RTX else "tensorrt")
    trt: Any = flavour.module
    # TensorRT logs by the first logger that it is given: let it be Polygraphy's.
    trt.Builder(get_trt_logger())
    there = registered(trt.get_plugin_registry())
    missing = names - {one.name for one in there if one.namespace == PLUGIN_NAMESPACE}
    compiled, problems = compiled_operators(missing)
    if problems:
        raise UsageError(problems)
    libraries = [library.path for library in compiled]
    if any(package_of(name) is None for name in missing):
        libraries.insert(0, plugin_library())
    for library in libraries:
        progress(f"Loading plugin library: {library}")
    load_plugins(flavour, libraries, process_log(flavour))


def _check_rtx_name() -> None:
    """Raises UsageError if the parser would end this process, as it opens the library by a name that the wheel lacks."""
    try:
        ctypes.CDLL(_RTX)
    except OSError as error:
        raise UsageError(
            f"TensorRT-RTX's parser would end this process at the first plugin node: it opens {_RTX}. {error}",
            "polygraphy run --trt with POLYGRAPHY_USE_TENSORRT_RTX=1",
            f"a link named {_RTX} in a folder on LD_LIBRARY_PATH before the process starts",
            f"use --trtsmith, which does this for you; or link {_RTX} to tensorrt_rtx_libs/{_RTX}.1 of site-packages",
        ) from error
