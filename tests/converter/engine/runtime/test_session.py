"""A session on the fake TensorRT: correct numbers without needless copies or calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fakes import FakeDevice, FakeMemory, FakeTensorRT, at

from tests.converter.engine.problems import problem_of
from trtsmith.converter.engine.runtime import inputs
from trtsmith.converter.engine.runtime.context import GraphReplay
from trtsmith.converter.engine.runtime.device import DeviceError
from trtsmith.converter.engine.runtime.foreign_arrays import Library
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.rewrite.types import IoType

Open = Callable[..., Runner]


class ForeignTensor:
    """Another library's array in the fake GPU's memory, written on the stream 7."""

    def __init__(self, device: FakeDevice, array: np.ndarray, strides: tuple[int, ...] | None = None) -> None:
        self.memory = FakeMemory(device, array.nbytes)
        at(self.memory.pointer, array.shape, array.dtype)[...] = array
        self.device = 0
        self.array = array
        self.strides = strides

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self.memory.pointer if self.array.size else 0, False),
            "shape": self.array.shape,
            "strides": self.strides,
            "typestr": self.array.dtype.str,
            "stream": 7,
            "version": 3,
        }


def numbers(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_host_arrays_in_and_out(open_runner: Open) -> None:
    runner = open_runner(b"double")
    for batch in (2, 8, 1, 8):
        x = numbers(batch, 3)
        y = runner({"x": x})["y"]
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y, x + x)


def test_no_inputs(open_runner: Open) -> None:
    runner = open_runner(b"constant")
    assert [runner({})["y"].tolist() for _ in range(2)] == [[1, 2, 3]] * 2


def test_buffers_grow(open_runner: Open) -> None:
    """The fake GPU refuses what is written beyond a block, so every buffer here has to be large enough."""
    runner = open_runner(b"rows")
    for rows in (1, 2, 50, 3, 49):
        x = numbers(rows, 100)
        np.testing.assert_array_equal(runner({"x": x})["y"], x + 1)


def test_a_buffer_takes_what_it_needs_where_there_is_no_more(open_runner: Open, device: FakeDevice) -> None:
    """From 800 bytes to 1200: twice as much is asked for first, and is not there."""
    session = open_runner(b"rows").session()
    elsewhere = FakeDevice()  # so that nothing but the output takes memory of this one
    two, three = (ForeignTensor(elsewhere, numbers(rows, 100)) for rows in (2, 3))
    session.infer({"x": two})
    device.capacity = device.used + 1300
    assert session.infer({"x": three})["y"].shape == (3, 100)


def test_arrays_that_are_not_in_c_order_are_copied_in_order(open_runner: Open) -> None:
    x = numbers(3, 4).T
    np.testing.assert_array_equal(open_runner(b"double")({"x": x})["y"], x + x)


def test_bfloat16_and_bool(open_runner: Open) -> None:
    a = np.array([1, 2, 3, 4], ml_dtypes.bfloat16)
    b = np.array([4, 3, 2, 1.5], ml_dtypes.bfloat16)
    outputs = open_runner(b"add")({"a": a, "b": b})
    assert outputs["y"].dtype == ml_dtypes.bfloat16 and outputs["y"].tolist() == [5, 5, 5, 5.5]
    assert outputs["less"].dtype == np.bool_ and outputs["less"].tolist() == [True, True, False, False]


def test_bfloat16_as_npz_files_hold_it(open_runner: Open) -> None:
    a = np.array([1, 2, 3, 4], ml_dtypes.bfloat16)
    outputs = open_runner(b"add")({"a": a.view("V2"), "b": a})
    assert outputs["y"].tolist() == [2, 4, 6, 8]


def test_types_at_the_edges(open_runner: Open) -> None:
    casts = [IoType("x", "float64", "float32"), IoType("y", "int64", "float32")]
    runner = open_runner(b"double", io_types=casts)
    x = np.array([[1.25, 2, 3]], np.float64)
    y = runner({"x": x})["y"]
    assert y.dtype == np.int64 and y.tolist() == [[2, 4, 6]]
    assert runner({"x": x.astype(np.float32)})["y"].tolist() == [
        [2, 4, 6]
    ]  # the engine's own type is right, too
    text = problem_of(lambda: runner({"x": x.astype(np.int32)}))
    assert "of the type int32" in text and "float64 (float32 in the engine)" in text


def test_sizes_that_the_data_decide(open_runner: Open) -> None:
    runner = open_runner(b"positive")
    for row, expected in (
        ([1, -1, -1, 1, 0, 0], [[0, 3]]),
        ([1, 1, 1, 1, 1, 1], [[0, 1, 2, 3, 4, 5]]),
        ([-1, 0, 0, 0, 0, 0], [[]]),
        ([0, 0, 0, 0, 0, 9], [[5]]),
    ):
        where = runner({"x": np.array(row, np.float32)})["where"]
        assert where.dtype == np.int64 and where.tolist() == expected


def test_inputs_whose_values_decide_shapes(open_runner: Open, tensorrt: FakeTensorRT) -> None:
    session = open_runner(b"reshape").session()
    x = np.arange(6, dtype=np.int32)
    for s in ([2, 3], [3, 2], [1, 6]):
        y = session.infer({"x": x, "s": np.array(s, np.int64)})["y"]
        assert y.numpy().tolist() == x.reshape(s).tolist()
    tensorrt.calls.clear()
    session.infer({"x": x, "s": np.array([1, 6], np.int64)})
    assert set(tensorrt.calls) == {"execute_async_v3"}  # the same values again are no news
    text = problem_of(lambda: session.infer({"x": x, "s": np.array([7, 1], np.int64)}))
    assert (
        "values [7, 1]" in text
        and "nearest allowed: [6, 1]" in text
        and "--values 's=[1,1]:[2,3]:[7,6]'" in text
    )


def test_a_shape_tensor_is_not_read_from_the_callers_array(open_runner: Open) -> None:
    session = open_runner(b"reshape").session()
    s = np.array([2, 3], np.int64)
    session.infer({"x": np.arange(6, dtype=np.int32), "s": s})
    s[:] = 99
    session.enqueue()
    assert session._results["y"].numpy().shape == (2, 3)


def test_values_that_changed_where_they_were_are_read_again(open_runner: Open) -> None:
    session = open_runner(b"reshape").session()
    x = np.arange(6, dtype=np.int32)
    s = session.upload({"s": np.array([2, 3], np.int64)})["s"]
    assert session.infer({"x": x, "s": s})["y"].shape == (2, 3)
    at(s.pointer, (2,), np.int64)[...] = 3, 2  # as a run of another session writes its output again
    assert session.infer({"x": x, "s": s})["y"].shape == (3, 2)


def test_values_on_the_gpu_are_read_after_who_writes_them(
    open_runner: Open, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's kernel that makes the values may still be queued on PyTorch's stream, here 7."""
    library = Library(
        lambda value: (value.memory.pointer,), lambda index: 7, lambda value: str(value.array.dtype)
    )
    monkeypatch.setattr(
        inputs, "library_of", lambda value: library if isinstance(value, ForeignTensor) else None
    )
    order: list[str] = []
    download = FakeDevice.download
    monkeypatch.setattr(
        FakeDevice, "download", lambda *a: (order.append(f"read after {device.waits}"), download(*a))[1]
    )
    session = open_runner(b"reshape").session()
    feeds = {"x": np.arange(6, dtype=np.int32), "s": ForeignTensor(device, np.array([2, 3]))}
    session.infer(feeds)
    assert order == [f"read after {[(session.stream, 7)]}"]


def test_an_output_is_no_input_of_the_run_that_writes_it(open_runner: Open) -> None:
    runner = open_runner(b"double")
    session = runner.session()
    y = session.infer({"x": numbers(2, 3)})["y"]
    text = problem_of(lambda: session.infer({"x": y}))
    assert "'x' is the output 'y' of this session" in text and "two sessions" in text
    with pytest.raises(RuntimeError, match=r"infer\(\) first"):
        session.enqueue()  # the addresses of a run that was refused are of no use
    other = runner.session()
    assert other.infer({"x": y})["y"].numpy().tolist() == (numbers(2, 3) * 4).tolist()
    assert session.infer({"x": numbers(2, 3)})["y"].numpy().tolist() == (numbers(2, 3) * 2).tolist()


def test_empty_tensors_have_an_address(open_runner: Open) -> None:
    runner = open_runner(b"empty")
    assert runner({"x": np.array([], np.uint8)})["y"].shape == (0,)
    assert runner({"x": np.array([1, 254], np.uint8)})["y"].tolist() == [254, 1]
    device_empty = ForeignTensor(runner._device, np.array([], np.uint8))
    assert runner({"x": device_empty})["y"].shape == (0,)


def test_device_arrays_are_used_where_they_are(
    open_runner: Open, device: FakeDevice, tensorrt: FakeTensorRT
) -> None:
    session = open_runner(b"double").session()
    x = ForeignTensor(device, numbers(2, 3))
    outputs = session.infer({"x": x}, synchronise=False)
    assert device.calls["upload"] == device.calls["synchronise"] == 0
    assert (session.stream, 7) in device.waits
    np.testing.assert_array_equal(outputs["y"].numpy(), numbers(2, 3) * 2)
    at(x.memory.pointer, (2, 3), np.float32)[...] = 5  # written again in place: no copy was taken
    assert session.infer({"x": x})["y"].numpy().tolist() == [[10, 10, 10]] * 2


def test_nothing_is_told_twice(open_runner: Open, device: FakeDevice, tensorrt: FakeTensorRT) -> None:
    session = open_runner(b"double").session()
    feeds = session.upload({"x": numbers(2, 3)})
    first = session.infer(feeds)["y"]
    device.calls.clear(), device.waits.clear(), tensorrt.calls.clear()
    for _ in range(3):
        again = session.infer(feeds, synchronise=False)["y"]
    assert again.pointer == first.pointer
    assert tensorrt.calls == {"execute_async_v3": 3}
    assert not device.calls and not device.waits


def test_a_tensor_of_another_session_is_waited_for(open_runner: Open, device: FakeDevice) -> None:
    runner = open_runner(b"double")
    one, two = runner.session(), runner.session(stream=55)
    middle = one.infer({"x": numbers(1, 3)}, synchronise=False)["y"]
    end = two.infer({"x": middle}, synchronise=False)["y"]
    assert two.stream == 55 and one.stream != 55
    assert device.waits == [(55, one.stream)]
    assert end.numpy().tolist() == [[4, 8, 12]]


def test_known_libraries_are_not_asked_again(
    open_runner: Open, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What PyTorch and CuPy take: the array itself is looked at, DLPack is asked when something changed."""
    asked: list[int] = []

    def fingerprint(value: ForeignTensor) -> tuple[Any, ...]:
        return value.memory.pointer, value.array.shape, value.array.dtype

    library = Library(fingerprint, lambda index: 33 + index, lambda value: str(value.array.dtype))
    real = inputs.import_array
    monkeypatch.setattr(
        inputs, "library_of", lambda value: library if isinstance(value, ForeignTensor) else None
    )
    monkeypatch.setattr(inputs, "import_array", lambda *a: (asked.append(1), real(*a))[1])
    session = open_runner(b"double").session()
    x = ForeignTensor(device, numbers(2, 3))
    for _ in range(3):
        y = session.infer({"x": x})["y"]
    assert y.numpy().tolist() == (numbers(2, 3) * 2).tolist()
    assert len(asked) == 1
    assert device.waits == [(session.stream, 33)] * 3  # its library may have written it anew
    other = ForeignTensor(device, numbers(4, 3))
    assert session.infer({"x": other})["y"].shape == (4, 3)
    assert len(asked) == 2


def test_a_tensor_that_is_not_dense_is_refused_after_one_that_is(open_runner: Open) -> None:
    torch = pytest.importorskip("torch")
    session = open_runner(b"double").session()
    dense = torch.ones(2, 3)

    def view(value: Any, stream: object) -> Any:
        if value is not dense:
            raise BufferError("Can't export tensors with layout other than torch.strided")
        array = value.numpy()
        interface = array.ctypes.data, array.shape, None, array.dtype, False, 0
        names = ("ptr", "shape", "strides", "dtype", "is_device_accessible", "device_id")
        return SimpleNamespace(**dict(zip(names, interface, strict=True)))

    session._device.view = view  # type: ignore[method-assign]
    assert session.infer({"x": dense})["y"].numpy().tolist() == [[2, 2, 2]] * 2
    text = problem_of(lambda: session.infer({"x": dense.to_sparse()}))
    assert "layout other than torch.strided" in text and "give a dense one" in text


@pytest.mark.parametrize("foreign", [False, True])
def test_a_copy_that_fails_leaves_nothing_of_the_array_before(
    open_runner: Open, device: FakeDevice, monkeypatch: pytest.MonkeyPatch, foreign: bool
) -> None:
    library = Library(lambda value: (value.memory.pointer,), lambda index: 33, lambda value: "float32")
    known = library if foreign else None
    monkeypatch.setattr(inputs, "library_of", lambda value: known)
    session = open_runner(b"double").session()
    x = numbers(2, 3)
    feeds = {"x": ForeignTensor(device, x)} if foreign else session.upload({"x": x})
    session.infer(feeds)

    def refused(*told: object) -> None:
        raise DeviceError("CUDA_ERROR_INVALID_VALUE", "said by the test")

    with monkeypatch.context() as patch:
        patch.setattr(device, "upload", refused)
        assert "CUDA_ERROR_INVALID_VALUE" in problem_of(lambda: session.infer({"x": x + 1}))
    np.testing.assert_array_equal(session.infer(feeds)["y"].numpy(), x * 2)


def test_device_arrays_that_are_refused(open_runner: Open, device: FakeDevice) -> None:
    session = open_runner(b"double").session()
    turned = ForeignTensor(device, numbers(3, 3), strides=(4, 12))
    text = problem_of(lambda: session.infer({"x": turned}))
    assert "not contiguous" in text and ".contiguous()" in text
    elsewhere = ForeignTensor(device, numbers(2, 3))
    elsewhere.device = 1
    assert "on the GPU 1" in problem_of(lambda: session.infer({"x": elsewhere}))
    half = ForeignTensor(device, numbers(2, 3).astype(np.float16))
    assert "of the type float16" in problem_of(lambda: session.infer({"x": half}))
    assert "of the type object" in problem_of(lambda: session.infer({"x": object()}))
    assert session.infer({"x": numbers(2, 3)})["y"].numpy()[0, 0] == 2  # nothing is broken by a refusal


def test_shapes_and_names_that_are_refused(open_runner: Open) -> None:
    runner = open_runner(b"double")
    text = problem_of(lambda: runner({"z": numbers(2, 3)}))
    assert "no array for the input 'x'" in text and "no input 'z'" in text
    assert "no array for the input 'x'" in problem_of(lambda: runner({}))
    assert "no input 'z'" in problem_of(lambda: runner({"x": numbers(2, 3), "z": numbers(1)}))
    for shape in ((3,), (2, 4), (2, 3, 1)):
        text = problem_of(lambda shape=shape: runner({"x": np.ones(shape, np.float32)}))
        assert str(list(shape)) in text and "float32[?, 3]" in text
    text = problem_of(lambda: runner({"x": numbers(12, 3)}))
    assert "from [1, 3] to [8, 3]" in text and "nearest allowed: [8, 3]" in text and "--profile 1" in text
    text = problem_of(lambda: runner({"x": numbers(20, 3)}))
    assert "--shapes x=1x3:2x3:20x3" in text


def test_profiles(open_runner: Open) -> None:
    runner = open_runner(b"double")
    session = runner.session(profile=1)
    assert session.infer({"x": numbers(12, 3)})["y"].shape == (12, 3)
    text = problem_of(lambda: runner.session(profile=2))
    assert "no optimization profile 2" in text and "`trtsmith run m.plan --list`" in text


def test_a_missing_array_is_told_with_the_engines_file(open_runner: Open) -> None:
    assert "`trtsmith run m.plan --list` shows the inputs" in problem_of(lambda: open_runner(b"double")({}))


def test_old_outputs_are_kept_while_they_are_used(open_runner: Open) -> None:
    session = open_runner(b"double").session()
    small = session.infer({"x": numbers(1, 3)})["y"]
    large = session.infer({"x": numbers(8, 3) + 100})["y"]
    assert small.shape == (1, 3) and large.shape == (8, 3)
    assert large.numpy()[0, 0] == 202


def test_tensorrt_graph(open_runner: Open, device: FakeDevice, tensorrt: FakeTensorRT) -> None:
    """The first run prepares, the second is captured and launched, the others are launched only."""
    runner = open_runner(b"double", cuda_graph=True)
    session = runner.session()
    feeds = session.upload({"x": numbers(2, 3)})
    for runs in range(1, 6):
        session.upload({"x": numbers(2, 3)})
        assert session.infer(feeds)["y"].numpy().tolist() == (numbers(2, 3) * 2).tolist()
        assert device.calls["launch"] == max(runs - 1, 0)
    assert tensorrt.calls["execute_async_v3"] == 2 and device.calls["captures"] == 1
    other = session.upload({"x": numbers(2, 3) * 10})
    for _ in range(3):  # another address of the same shape gets a graph of its own
        assert session.infer(other)["y"].numpy()[0, 0] == 20
        assert session.infer(feeds)["y"].numpy()[0, 0] == 2
    assert device.calls["captures"] == 2
    larger = session.upload({"x": numbers(4, 3)})
    for _ in range(3):  # another shape, and what was captured before is of no use
        assert session.infer(larger)["y"].shape == (4, 3)
    assert device.calls["captures"] == 3
    assert runner.warnings == []


def test_a_graph_sees_what_is_written_to_the_same_address(open_runner: Open, device: FakeDevice) -> None:
    session = open_runner(b"double", cuda_graph=True).session()
    x = ForeignTensor(device, numbers(2, 3))
    for value in (1.0, 2.0, 3.0):
        at(x.memory.pointer, (2, 3), np.float32)[...] = value
        assert session.infer({"x": x})["y"].numpy()[0, 0] == 2 * value
    assert device.calls["launch"] == 2


def test_a_graph_is_of_one_shape(open_runner: Open, device: FakeDevice) -> None:
    """Other shapes at the same addresses: host arrays go through one buffer, and so do the outputs."""
    session = open_runner(b"double", cuda_graph=True).session()
    for batch in (4, 2, 4):
        for run in range(4):
            x = numbers(batch, 3) + run
            np.testing.assert_array_equal(session.infer({"x": x})["y"].numpy(), x * 2)
    assert device.calls["captures"] == 3


def test_what_is_not_queued_is_no_graph(device: FakeDevice) -> None:
    warnings: list[str] = []
    parts: Any = (device, device.create_stream())
    replay = GraphReplay(*parts, warnings.append)
    assert replay.find((1, 2), lambda stream: False) is None
    assert warnings == []
    assert replay.find((1, 2), lambda stream: False) is None
    assert len(warnings) == 1 and "could not be captured" in warnings[0] and not device.capturing
    assert replay.find((1, 2), lambda stream: True) is None  # given up for good, and said once
    assert len(warnings) == 1


def test_no_graph_where_the_data_decide_a_size(open_runner: Open, device: FakeDevice) -> None:
    runner = open_runner(b"positive", cuda_graph=True)
    for _ in range(3):
        assert runner({"x": np.array([1, 0, 0, 0, 0, 1], np.float32)})["where"].tolist() == [[0, 5]]
    assert device.calls["captures"] == 0
    (warning,) = runner.warnings
    assert "no CUDA graph is used" in warning and "'where'" in warning


def test_rtx_captures_by_itself(open_runner: Open, rtx: FakeTensorRT, device: FakeDevice) -> None:
    runner = open_runner(b"double", rtx, cuda_graph=True)
    session = runner.session()
    assert rtx.runtime_config.cuda_graph_strategy is rtx.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
    feeds = session.upload({"x": numbers(2, 3)})
    for _ in range(3):
        session.infer(feeds)
    assert device.calls["captures"] == 0 and rtx.calls["execute_async_v3"] == 3
    assert runner.warnings == []
    positive = open_runner(b"positive", rtx, cuda_graph=True)
    for _ in range(2):
        positive({"x": np.ones(6, np.float32)})
    assert len(positive.warnings) == 1 and "'where'" in positive.warnings[0]
    runner.session(cuda_graph=False)
    assert rtx.runtime_config.cuda_graph_strategy is None


def test_when_rtx_compiles_kernels_for_new_shapes(
    open_runner: Open, rtx: FakeTensorRT, device: FakeDevice
) -> None:
    strategies = rtx.DynamicShapesKernelSpecializationStrategy
    for asked, expected in (({}, strategies.EAGER), ({"specialization": "lazy"}, strategies.LAZY)):
        open_runner(b"double", rtx, **asked).session()
        assert rtx.runtime_config.dynamic_shapes_kernel_specialization_strategy is expected
    text = problem_of(lambda: open_runner(b"double", rtx, specialization="early"))
    assert "'early'" in text and "eager, lazy, none" in text


def test_memory_runs_out(open_runner: Open, device: FakeDevice) -> None:
    session = open_runner(b"rows").session()
    session.infer({"x": numbers(1, 100)})
    large = ForeignTensor(FakeDevice(), numbers(50, 100))
    device.capacity = device.used + 300
    text = problem_of(lambda: session.infer({"x": large}))
    assert "not enough GPU memory" in text and "m.plan" in text
    with pytest.raises(RuntimeError, match="first"):  # not with the new input and the old output
        session.enqueue()
    device.capacity = 1 << 30
    np.testing.assert_array_equal(session.infer({"x": large})["y"].numpy(), numbers(50, 100) + 1)


def test_memory_runs_out_for_an_output_that_grows(open_runner: Open, device: FakeDevice) -> None:
    session = open_runner(b"positive").session()
    x = session.upload({"x": np.ones(6, np.float32)})
    device.capacity = device.used + 1
    text = problem_of(lambda: session.infer(x))
    assert "not enough GPU memory for the output 'where'" in text
    device.capacity *= 2
    assert session.infer(x)["where"].numpy().tolist() == [[0, 1, 2, 3, 4, 5]]
    session._context.addresses.clear()  # another failure, that has nothing to do with memory
    text = problem_of(lambda: session.infer(x))
    assert "Address is not set for x" in text and "memory" not in text


def test_a_kernel_fails(open_runner: Open, device: FakeDevice, tmp_path: Any) -> None:
    from trtsmith.converter.engine.runtime.explain_failure import EngineIdentity

    library = tmp_path / "mine.so"
    runner = open_runner(b"fault")
    runner._loaded = runner._loaded.__class__(
        **{**vars(runner._loaded), "origin": EngineIdentity("m.plan", (library,))}
    )
    session = runner.session()
    text = problem_of(lambda: session.infer({"x": np.ones(3, np.float32)}))
    assert "A kernel of the engine failed: CUDA_ERROR_ILLEGAL_ADDRESS" in text
    assert (
        f"trtsmith plugin test {library}" in text
        and "trtsmith run m.plan --inputs FILE.npz names the kernel" in text
    )
    assert "failed" in problem_of(session.synchronise)


def test_enqueue_needs_an_inference_first(open_runner: Open, tensorrt: FakeTensorRT) -> None:
    session = open_runner(b"double").session()
    with pytest.raises(RuntimeError, match=r"infer\(\) first"):
        session.enqueue()
    session.infer({"x": numbers(2, 3)})
    tensorrt.calls.clear()
    session.enqueue()
    assert tensorrt.calls == {"execute_async_v3": 1}


def test_each_thread_gets_the_context_once(open_runner: Open, device: FakeDevice) -> None:
    session = open_runner(b"double").session()
    feeds = {"x": numbers(2, 3)}
    session.infer(feeds)
    before = device.calls["make_current"]

    def elsewhere() -> None:
        session.infer(feeds)
        session.infer(feeds)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    session.infer(feeds)
    assert device.calls["make_current"] == before + 1
    device.threads.index = 7  # a runner on another GPU, in this thread
    session.infer(feeds)
    assert device.calls["make_current"] == before + 2 and device.threads.index == device.index
