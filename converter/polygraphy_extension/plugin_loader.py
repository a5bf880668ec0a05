"""Gives Polygraphy's TensorRT our plugins, where a model has nodes of them.

Its own `--plugins` opens libraries with dlopen, which registers nothing of a library that TensorRT loads by getCreators.
"""

from __future__ import annotations

import ctypes
from typing import Any

from polygraphy import config, util
from polygraphy.backend.base import BaseLoader

from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.polygraphy_extension.polygraphy_log import problems_logged, progress
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.problem import Problem

_RTX = "libtensorrt_rtx.so"


class LoadTrtsmithPlugins(BaseLoader):  # type: ignore[misc]  # Polygraphy has no types
    """Gives back a model as it is, and first loads our plugin library into TensorRT's registry, if the model needs it."""

    def __init__(self, model: Any) -> None:
        """model: an onnx.ModelProto, or a callable that gives one."""
        self._model = model

    @util.check_called_by("__call__")  # type: ignore[untyped-decorator]
    def call_impl(self) -> Any:
        """The model."""
        from trtsmith.importers.expansion import plugin_nodes

        model, _ = util.invoke_if_callable(self._model)
        if any(True for _ in plugin_nodes(model.graph)):
            with problems_logged():
                _load()
        return model


def _load() -> None:
    from polygraphy.backend.trt import get_trt_logger

    from trtsmith.converter.engine.build.flavour import load_flavour
    from trtsmith.converter.engine.build.plugins import registered
    from trtsmith.converter.engine.libraries import plugin_library
    from trtsmith.converter.engine.runtime.loading import load_plugins
    from trtsmith.converter.engine.runtime.logged import process_log

    if config.USE_TENSORRT_RTX:
        _check_rtx_name()
    flavour = load_flavour("tensorrt_rtx" if config.USE_TENSORRT_RTX else "tensorrt")
    trt: Any = flavour.module
    trt.Builder(
        get_trt_logger()
    )  # TensorRT logs by the first logger that it is given: let it be Polygraphy's
    if any(creator.namespace == PLUGIN_NAMESPACE for creator in registered(trt.get_plugin_registry())):
        return
    library = plugin_library()
    progress(f"Loading plugin library: {library}")
    load_plugins(flavour, [library], process_log(flavour))


def _check_rtx_name() -> None:
    """UsageError where the parser would end this process: it opens the library by a name that the wheel has not."""
    try:
        ctypes.CDLL(_RTX)
    except OSError as error:
        raise UsageError(
            Problem(
                f"TensorRT-RTX's parser would end this process at the first plugin node: it opens {_RTX}. {error}",
                "polygraphy run --trt with POLYGRAPHY_USE_TENSORRT_RTX=1",
                f"a link of the name {_RTX} in a folder on LD_LIBRARY_PATH before the process starts",
                f"use --trtsmith, which sees to that; or link {_RTX} to tensorrt_rtx_libs/{_RTX}.1 of site-packages",
            )
        ) from error
