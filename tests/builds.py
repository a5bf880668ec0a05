"""Builds engines in a worker that lives for the whole test run and imports TensorRT once.

For tests of what is built. A build that ends the worker fails its own test; the next one gets another worker.
"""

from __future__ import annotations

import atexit
from functools import cache

from trtsmith.converter.engine.builder.build import WORKER, build
from trtsmith.converter.engine.builder.build_request import BuildRequest, BuildResult
from trtsmith.converter.engine.child.pool import Pool

FLAVOUR = "tensorrt_rtx"


def build_in_pool(request: BuildRequest) -> BuildResult:
    """As `build`, of a request for TensorRT-RTX."""
    assert request.flavour == FLAVOUR
    return build(request, pool=_pool())


@cache
def _pool() -> Pool:
    pool = Pool(WORKER, flavour=FLAVOUR)
    atexit.register(pool.close)
    return pool
