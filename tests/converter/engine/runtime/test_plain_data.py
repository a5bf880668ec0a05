"""Messages between the processes, and arrays of every dtype, survive a round trip."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.run_request import ChildRequest, RunRequest
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.rewrite.types import IoType


def test_request_goes_through_json(tmp_path: Path) -> None:
    whole = RunRequest(
        engine_path=tmp_path / "m.plan",
        plugin_libraries=(tmp_path / "a.so", tmp_path / "b.so"),
        flavour="tensorrt",
        io_types=(IoType("x", "float64", "float32"),),
        runtime_cache=tmp_path / "cache",
        cuda_graph=True,
        verbose=True,
        timeout_s=2.5,
        profile=1,
        embedded_plugins=True,
        built_version="10.3.0.26",
        targets=("sm90",),
    )
    for request in (whole, RunRequest(tmp_path / "m.plan")):
        order = ChildRequest(request, (tmp_path / "in0", tmp_path / "in1"), (tmp_path / "out0",))
        assert ChildRequest.from_json(order.to_json()) == order


def test_info_goes_through_json() -> None:
    profiles = (Profile((1, 3), (2, 3), (8, 3)), Profile((9, 3), (9, 3), (16, 3)))
    values = (Profile((1,), (2,), (3,), values=True),)
    info = EngineInfo(
        flavour="tensorrt_rtx",
        version="1.6.1.120",
        gpu="NVIDIA H200",
        compute_capability="9.0",
        inputs=(
            TensorSpec("x", "bfloat16", (-1, 3), True, profiles=profiles),
            TensorSpec("s", "int64", (1,), True, True, values),
        ),
        outputs=(TensorSpec("y", "bool", (), False),),
        profiles=2,
        device_memory=4096,
    )
    assert EngineInfo.from_json(json.loads(json.dumps(info.to_json()))) == info
    assert str(info.inputs[0]) == "bfloat16[?, 3]"


DTYPES = [
    np.float32,
    np.float16,
    np.float64,
    np.int8,
    np.uint8,
    np.int32,
    np.int64,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back(tmp_path: Path, dtype: type) -> None:
    values = (np.arange(1, 31).reshape(5, 6) % 7 + 1).astype(dtype)
    arrays = {
        "odd/name": values,
        "turned": values.T,
        "strided": values[::2, 1::2],
        "scalar": values[2, 3].reshape(()),
        "none": values[:0],
    }
    write_arrays(tmp_path / "there", arrays)
    back = read_arrays(tmp_path / "there")
    shutil.rmtree(tmp_path / "there")
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape, name
        assert back[name].tobytes() == array.tobytes(), name
        assert back[name].size == 0 or back[name].ctypes.data % 64 == 0
        assert type(back[name]) is np.ndarray and not back[name].flags.writeable


def test_booleans_byte_order_and_nothing(tmp_path: Path) -> None:
    mask = np.array([True, False, True])
    write_arrays(tmp_path / "a", {"mask": mask, "big": np.array([1, 2, 300], ">i4")})
    back = read_arrays(tmp_path / "a")
    assert back["mask"].tolist() == [True, False, True]
    assert back["big"].tolist() == [1, 2, 300] and back["big"].dtype == np.dtype(np.int32)
    write_arrays(tmp_path / "b", {})
    assert read_arrays(tmp_path / "b") == {}


def test_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'r' holds records"):
        write_arrays(tmp_path / "r", {"r": np.zeros(2, [("a", "f4"), ("b", "i4")])})
    with pytest.raises(ValueError, match="'o' holds records or Python objects"):
        write_arrays(tmp_path / "a", {"o": np.array([{}])})
