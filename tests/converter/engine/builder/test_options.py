"""The effect of a request on the builder's configuration."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from trtsmith.converter.engine.builder.build_request import BuildRequest
from trtsmith.converter.engine.builder.build_worker import _set_options
from trtsmith.converter.engine.builder.flavour import Flavour


@pytest.mark.parametrize("details", [True, False])
def test_layers_are_described_in_full_only_where_that_is_asked_for(details: bool) -> None:
    module = ModuleType("tensorrt_rtx")
    module.ProfilingVerbosity = SimpleNamespace(DETAILED="detailed")  # type: ignore[attr-defined]
    config = SimpleNamespace()
    request = BuildRequest(Path("m.onnx"), Path("m.plan"), layer_details=details)
    _set_options(Flavour(module, "tensorrt_rtx", (1, 7, 1)), config, request)
    assert vars(config) == ({"profiling_verbosity": "detailed"} if details else {})
    assert BuildRequest.from_json(request.to_json()) == request
