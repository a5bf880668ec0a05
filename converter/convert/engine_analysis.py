"""Derives the options of an engine's analysis from its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from trtsmith.converter.convert.analysis import AnalysisOptions
from trtsmith.converter.convert.foreign_nodes import target_of
from trtsmith.converter.convert.precision_request import engine_request
from trtsmith.converter.engine.bundle.origin import EngineOrigin
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.runtime.run_request import RunRequest


def analysis_of_engine(
    origin: EngineOrigin, run: RunRequest, frozen: Mapping[str, np.ndarray] | None = None
) -> AnalysisOptions:
    """Returns options with which `analyse` makes the engine's graph again.

    run: how the engine is run: its TensorRT, its plugin libraries and the user's, and the edges that have other types.
    frozen: values of inputs that are constants in the engine; None: unknown.
    """
    return AnalysisOptions(
        replace(target_of(run.flavour, prefer_stock=origin.prefer_stock), float_lstm=origin.float_lstm),
        frozen=frozen,
        plugins=tuple(path for path in run.plugin_libraries if path.name != plugin_library().name),
        precision=engine_request(origin, run.io_types),
        profiles=origin.profiles,
        values=origin.values,
    )
