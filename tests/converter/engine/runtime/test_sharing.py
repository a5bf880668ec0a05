"""Sharing tensors with other libraries, in both directions: DLPack, its types, layouts and streams."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fakes import FakeDevice, FakeMemory, FakeStream, at

from trtsmith.converter.engine.runtime.device_tensor import CAPSULE_TYPES, DeviceTensor, capsule_of
from trtsmith.converter.engine.runtime.foreign_arrays import (
    _is_contiguous,
    import_array,
    library_of,
    stream_handle,
)

torch = pytest.importorskip("torch")
views = pytest.importorskip("cuda.core.utils").StridedMemoryView


class HostTensor:
    """What DeviceTensor does, with memory of the host: cuda-core's own view of it, PyTorch as the consumer."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **rest: object) -> object:
        capsule_type = self.array.view(CAPSULE_TYPES.get(self.array.dtype, self.array.dtype))
        return capsule_of(views.from_any_interface(capsule_type, -1), self.array.dtype, max_version)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "bool", "float32", "float16", "int64", "uint8"]
)
@pytest.mark.parametrize("versioned", [True, False])
def test_types_by_dlpack(dtype: str, versioned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.array([[0, 1, 2], [1, 0, 1]]).astype(dtype)
    tensor = HostTensor(array)
    if not versioned:
        real = tensor.__dlpack__
        monkeypatch.setattr(HostTensor, "__dlpack__", lambda self, **rest: real())
    shared = torch.from_dlpack(tensor)
    assert str(shared.dtype) == f"torch.{dtype}"
    assert shared.to(torch.float32).tolist() == array.astype(np.float32).tolist()
    array[0, 0] = 1
    assert float(shared[0, 0]) == 1  # the memory is shared


def tensor_of(device: FakeDevice, array: np.ndarray) -> DeviceTensor:
    memory: Any = FakeMemory(device, array.nbytes)
    at(memory.pointer, array.shape, array.dtype)[...] = array
    parts: Any = (device, FakeStream(42))
    return DeviceTensor(*parts, memory, array.shape, array.dtype)


def test_cuda_array_interface(device: FakeDevice) -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    tensor = tensor_of(device, array)
    interface = tensor.__cuda_array_interface__
    assert interface["shape"] == (2, 3) and interface["typestr"] == "<i8" and interface["version"] == 3
    assert interface["data"] == (tensor.pointer, False) and interface["stream"] == 42
    assert tensor.numpy().tolist() == array.tolist() and (tensor.size, tensor.nbytes) == (6, 48)
    assert tensor_of(device, np.array([True])).__cuda_array_interface__["typestr"] == "|b1"
    assert tensor_of(device, array[:0]).__cuda_array_interface__["data"] == (0, False)


def test_types_that_the_interface_cannot_name_go_by_dlpack_alone(device: FakeDevice) -> None:
    tensor = tensor_of(device, np.ones(2, ml_dtypes.bfloat16))
    assert not hasattr(tensor, "__cuda_array_interface__")
    assert tensor.__dlpack_device__() == (2, 0)


def test_who_takes_a_tensor_waits_for_it(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = tensor_of(device, np.ones(2, np.float32))
    monkeypatch.setattr(
        "trtsmith.converter.engine.runtime.device_tensor.capsule_of", lambda *parts: "capsule"
    )
    monkeypatch.setattr(FakeDevice, "view_memory", lambda *parts: None, raising=False)
    for stream, waits in ((7, [(7, 42)]), (None, [(1, 42)]), (-1, [])):
        device.waits.clear()
        assert tensor.__dlpack__(stream=stream, max_version=(1, 0)) == "capsule"
        assert device.waits == waits
    with pytest.raises(BufferError, match=r"\.numpy\(\)"):
        tensor.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(1, 0))


class HostViews:
    """The part of Device that import_array uses, without a GPU."""

    def view(self, value: object, stream: object) -> Any:
        return views.from_any_interface(value, -1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "bool", "float32", "int64"])
def test_arrays_of_pytorch(dtype: str) -> None:
    device: Any = HostViews()
    tensor = torch.ones(2, 3).to(getattr(torch, dtype))
    array = import_array(device, tensor, None)
    assert (array.shape, array.dtype, array.on_device) == ((2, 3), dtype, False)
    assert array.pointer == tensor.data_ptr() and array.contiguous
    assert not import_array(device, tensor.t(), None).contiguous
    assert import_array(device, tensor[1:], None).pointer == tensor[1:].data_ptr()


def test_what_is_no_array() -> None:
    device: Any = HostViews()
    for value in (3, [1, 2], object(), torch.ones(2, requires_grad=True)):
        with pytest.raises(TypeError):
            import_array(device, value, None)


def test_fingerprints_of_pytorch_tell_tensors_apart() -> None:
    library = library_of(torch.ones(1))
    assert library is not None and library_of(np.ones(1)) is None
    square = torch.ones(3, 3)
    same = library.fingerprint(square)
    assert library.fingerprint(square[:]) == same
    for other in (square.t()[:2], square[:2], square.t().flip(0), square.view(torch.int32), torch.ones(3, 3)):
        assert library.fingerprint(other) != same
    stretched = torch.ones(6, 3)[::2]
    assert not library.fingerprint(stretched)[3]


@pytest.mark.parametrize(
    ("shape", "strides", "contiguous"),
    [
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), False),
        ((2, 3), (6, 1), False),
        ((1, 3), (99, 1), True),
        ((3, 1), (1, 99), True),
        ((0, 3), (7, 7), True),
        ((), (), True),
        ((2,), (0,), False),
    ],
)
def test_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], contiguous: bool) -> None:
    assert _is_contiguous(shape, strides) is contiguous


def test_streams_of_libraries() -> None:
    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 11

    class Torch:
        cuda_stream = 12

    class CuPy:
        ptr = 13

    assert [stream_handle(s) for s in (10, Protocol(), Torch(), CuPy())] == [10, 11, 12, 13]
    with pytest.raises(TypeError, match="not a CUDA stream"):
        stream_handle("0")
