"""Provides engines for the fake TensorRT, and a session that runs them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fakes import (
    FakeDevice,
    FakePlan,
    FakeTensor,
    FakeTensorRT,
    KernelError,
    flavour_of,
    log_of,
)

from trtsmith.converter.engine.runtime.explain_failure import EngineIdentity
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.engine.runtime.runner import Runner


def _double(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"y": arrays["x"] * 2}


def _fault(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    raise KernelError


TWO_PROFILES = (((1, 3), (2, 3), (8, 3)), ((9, 3), (12, 3), (16, 3)))
ROWS = (((1, 100), (1, 100), (50, 100)),)

PLANS: dict[bytes, FakePlan] = {
    # y = 2 x, of a dynamic batch
    b"double": FakePlan(
        (FakeTensor("x", "FLOAT", (-1, 3), profiles=TWO_PROFILES),),
        (FakeTensor("y", "FLOAT", (-1, 3)),),
        _double,
        profiles=2,
    ),
    # y = x + 1, of any number of rows of 100
    b"rows": FakePlan(
        (FakeTensor("x", "FLOAT", (-1, 100), profiles=ROWS),),
        (FakeTensor("y", "FLOAT", (-1, 100)),),
        lambda arrays: {"y": arrays["x"] + 1},
    ),
    # no input at all
    b"constant": FakePlan(
        (), (FakeTensor("y", "FLOAT", (3,)),), lambda _: {"y": np.array([1, 2, 3], np.float32)}
    ),
    # two inputs of bfloat16
    b"add": FakePlan(
        (FakeTensor("a", "BF16", (4,)), FakeTensor("b", "BF16", (4,))),
        (FakeTensor("y", "BF16", (4,)), FakeTensor("less", "BOOL", (4,))),
        lambda arrays: {"y": arrays["a"] + arrays["b"], "less": arrays["a"] < arrays["b"]},
    ),
    # the indices of what is positive: the data decide how many
    b"positive": FakePlan(
        (FakeTensor("x", "FLOAT", (6,)),),
        (FakeTensor("where", "INT64", (1, -1)),),
        lambda arrays: {"where": np.argwhere(arrays["x"] > 0).T.astype(np.int64).copy()},
        lambda shapes, values: {"where": (1, -1)},
    ),
    # x in the shape that the values of s say
    b"reshape": FakePlan(
        (
            FakeTensor("x", "INT32", (6,)),
            FakeTensor("s", "INT64", (2,), on_host=True, profiles=(((1, 1), (2, 3), (6, 6)),)),
        ),
        (FakeTensor("y", "INT32", (-1, -1)),),
        lambda arrays: {"y": arrays["x"].reshape(arrays["s"])},
        lambda shapes, values: {"y": tuple(int(v) for v in values["s"])},
    ),
    # any length, none as well
    b"empty": FakePlan(
        (FakeTensor("x", "UINT8", (-1,), profiles=(((0,), (4,), (9,)),)),),
        (FakeTensor("y", "UINT8", (-1,)),),
        lambda arrays: {"y": arrays["x"] ^ 0xFF},
    ),
    b"fault": FakePlan((FakeTensor("x", "FLOAT", (3,)),), (FakeTensor("y", "FLOAT", (3,)),), _fault),
    b"int4": FakePlan(
        (FakeTensor("x", "INT4", (4,)),), (FakeTensor("y", "FLOAT", (4,), linear=False),), _double
    ),
}


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def tensorrt(device: FakeDevice) -> FakeTensorRT:
    return FakeTensorRT(device, PLANS)


@pytest.fixture
def rtx(device: FakeDevice) -> FakeTensorRT:
    return FakeTensorRT(device, PLANS, rtx=True)


@pytest.fixture
def open_runner(device: FakeDevice, tensorrt: FakeTensorRT) -> Callable[..., Runner]:
    """open_runner(b"double", module=rtx, **options of Runner) -> Runner"""

    def open_(
        name: bytes, module: FakeTensorRT = tensorrt, origin: EngineIdentity | None = None, **options: Any
    ) -> Runner:
        fake_device: Any = device
        one = origin or EngineIdentity("m.plan")
        request = RunRequest(
            Path(one.where),
            one.plugin_libraries,
            built_version=one.built_version,
            targets=one.targets,
            **options,
        )
        return Runner(request, fake_device, flavour_of(module), log_of(module), name.ljust(100, b"."))

    return open_
