"""The runner on a real GPU, with engines built in this process by the installed TensorRT."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.flavour import load_flavour, network_flags
from trtsmith.converter.engine.runtime.context import GraphReplay
from trtsmith.converter.engine.runtime.run_in_child import describe_engine, run_engine
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.runtime_log import process_log

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[3]
Sizes = tuple[Sequence[int], Sequence[int], Sequence[int]]
RNG = np.random.default_rng(5)


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]>\n{text}')


def plan_of(text: str, sizes: Mapping[str, Sizes] | None = None) -> bytes | None:
    """An engine for the GPU that is there, None where this TensorRT has no layer for it.

    sizes: (min, opt, max) of dynamic inputs and of shape tensors.
    """
    flavour = load_flavour()
    trt: Any = flavour.module
    logger = process_log(flavour).logger
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags(flavour))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(model_of(text).SerializeToString()):
        print(parser.get_error(0).desc())
        return None
    config = builder.create_builder_config()
    if flavour.is_rtx:
        config.num_compute_capabilities = 1
        config.set_compute_capability(trt.ComputeCapability.CURRENT, 0)
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        if tensor.name in (sizes or {}):
            setter = profile.set_shape_input if tensor.is_shape_tensor else profile.set_shape
            setter(tensor.name, *map(list, (sizes or {})[tensor.name]))
    if sizes:
        config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    return None if plan is None else bytes(plan)


def engine_of(text: str, sizes: Mapping[str, Sizes] | None = None) -> bytes:
    plan = plan_of(text, sizes)
    assert plan is not None
    return plan


RELU = "g (float[n, 3] x) => (float[n, 3] y) { y = Relu (x) }"
RELU_SIZES: dict[str, Sizes] = {"x": ((0, 3), (2, 3), (512, 3))}


@pytest.fixture(scope="module")
def relu() -> bytes:
    return engine_of(RELU, {"x": ((1, 3), (2, 3), (512, 3))})


def signed(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_dynamic_shapes(relu: bytes) -> None:
    with Runner.open(relu) as runner:
        assert runner.info.inputs[0].profiles[0].max == (512, 3)
        for batch in (1, 512, 2, 7, 512):
            x = signed(batch, 3)
            np.testing.assert_array_equal(runner({"x": x})["y"], np.maximum(x, 0))
        with pytest.raises(UsageError, match=r"nearest allowed: \[512, 3\]"):
            runner({"x": signed(513, 3)})


def test_empty_tensors() -> None:
    with Runner.open(engine_of(RELU, RELU_SIZES)) as runner:
        for batch in (0, 3, 0):
            assert runner({"x": signed(batch, 3)})["y"].shape == (batch, 3)


@pytest.mark.parametrize(
    ("text", "feeds", "expected"),
    [
        (
            "g (bool[4] x) => (bool[4] y) { y = Not (x) }",
            np.array([1, 0, 0, 1], bool),
            [False, True, True, False],
        ),
        ("g (int64[3] x) => (int64[3] y) { y = Add (x, x) }", np.array([1, -2, 2**40]), [2, -4, 2**41]),
        ("g (int32[3] x) => (int32[3] y) { y = Mul (x, x) }", np.array([1, -2, 3], np.int32), [1, 4, 9]),
        (
            "g (uint8[3] x) => (float[3] y) { y = Cast <to = 1> (x) }",
            np.array([0, 7, 255], np.uint8),
            [0, 7, 255],
        ),
        (
            "g (float16[3] x) => (float16[3] y) { y = Neg (x) }",
            np.array([0.5, 2, -4], np.float16),
            [-0.5, -2, 4],
        ),
        (
            "g (bfloat16[3] x) => (bfloat16[3] y) { y = Add (x, x) }",
            np.array([0.5, 2, -4], ml_dtypes.bfloat16),
            [1, 4, -8],
        ),
    ],
    ids=["bool", "int64", "int32", "uint8", "float16", "bfloat16"],
)
def test_types(text: str, feeds: np.ndarray, expected: list[Any]) -> None:
    with Runner.open(engine_of(text)) as runner:
        y = runner({"x": feeds})["y"]
        assert y.tolist() == expected
        assert str(y.dtype) == runner.info.outputs[0].dtype


def test_inputs_whose_values_decide_shapes() -> None:
    text = "g (float[6] x, int64[2] s) => (float[a, b] y) { y = Reshape (x, s) }"
    with Runner.open(engine_of(text, {"s": ((1, 1), (2, 3), (6, 6))})) as runner:
        x = signed(6)
        for shape in ((2, 3), (6, 1), (1, 6)):
            y = runner({"x": x, "s": np.array(shape, np.int64)})["y"]
            np.testing.assert_array_equal(y, x.reshape(shape))
        with pytest.raises(UsageError, match="outside the optimization profile"):
            runner({"x": x, "s": np.array([7, 1], np.int64)})


def test_sizes_that_the_data_decide() -> None:
    plan = plan_of("g (float[6] x) => (int64[1, n] y) { y = NonZero (x) }")
    if plan is None:
        pytest.xfail("this TensorRT has no layer whose size the data decide")
    with Runner.open(plan, cuda_graph=True) as runner:
        for row in ([1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1]):
            y = runner({"x": np.array(row, np.float32)})["y"]
            assert y.tolist() == [np.flatnonzero(row).tolist()]
        assert any("no CUDA graph is used" in warning for warning in runner.warnings)


def test_pytorch_without_copies(relu: bytes) -> None:
    torch = pytest.importorskip("torch")
    with Runner.open(relu) as runner:
        session = runner.session()
        x = torch.randn(512, 3, device="cuda")
        kept = torch.clamp(x, min=0)
        y = torch.from_dlpack(session.infer({"x": x})["y"])
        assert y.device.type == "cuda" and torch.equal(y, kept)
        x.fill_(3)  # in place: the session reads it where it is
        again = session.infer({"x": x})["y"]
        assert again.pointer == y.data_ptr() and bool((y == 3).all())
        for view in (x[::2], x[:, :1].expand(512, 3)):
            with pytest.raises(UsageError, match="not contiguous"):
                session.infer({"x": view})
        session.infer(
            {"x": torch.randn(4, 3)}
        )  # on the host: copied; the result lies where the first rows of y were
        del session, again
        assert bool((y[4:] == 3).all())  # the memory lives as long as PyTorch's tensor


def test_pytorch_on_other_streams(relu: bytes) -> None:
    """Written on one stream, run on the session's, read on a third, and nobody waits by hand."""
    torch = pytest.importorskip("torch")
    with Runner.open(relu) as runner:
        session = runner.session()
        writer, reader = torch.cuda.Stream(), torch.cuda.Stream()
        x = torch.zeros(512, 3, device="cuda")
        torch.cuda.synchronize()
        for value in range(1, 20):
            with torch.cuda.stream(writer):
                torch.cuda._sleep(2_000_000)  # about a millisecond in which nobody may read x
                x.fill_(value)
                y = session.infer({"x": x}, synchronise=False)["y"]
            with torch.cuda.stream(reader):
                total = torch.from_dlpack(y).sum()
            reader.synchronize()
            assert float(total) == value * 512 * 3
            session.synchronise()


def test_bfloat16_by_dlpack() -> None:
    torch = pytest.importorskip("torch")
    with Runner.open(engine_of("g (bfloat16[3] x) => (bfloat16[3] y) { y = Add (x, x) }")) as runner:
        x = torch.tensor([1.5, -2, 100], device="cuda", dtype=torch.bfloat16)
        y = torch.from_dlpack(runner.session().infer({"x": x})["y"])
        assert y.dtype is torch.bfloat16 and y.tolist() == [3, -4, 200]


def test_booleans_by_dlpack_and_interface() -> None:
    torch = pytest.importorskip("torch")
    with Runner.open(engine_of("g (bool[3] x) => (bool[3] y) { y = Not (x) }")) as runner:
        x = torch.tensor([True, False, True], device="cuda")
        result = runner.session().infer({"x": x})["y"]
        assert torch.from_dlpack(result).tolist() == [False, True, False]
        assert torch.as_tensor(result, device="cuda").tolist() == [False, True, False]


def test_cupy_without_copies(relu: bytes) -> None:
    cupy = pytest.importorskip("cupy")
    with Runner.open(relu) as runner:
        session = runner.session()
        x = cupy.asarray(signed(8, 3))
        result = session.infer({"x": x})["y"]
        for y in (cupy.from_dlpack(result), cupy.asarray(result)):
            assert y.data.ptr == result.pointer
            cupy.testing.assert_array_equal(y, cupy.maximum(x, 0))
        x[...] = 2
        assert float(cupy.from_dlpack(session.infer({"x": x})["y"]).min()) == 2
        with pytest.raises(UsageError, match="not contiguous"):
            session.infer({"x": cupy.asarray(signed(3, 3)).T})


def test_one_engine_feeds_another(relu: bytes) -> None:
    double = engine_of("g (float[4, 3] x) => (float[4, 3] y) { y = Add (x, x) }")
    with Runner.open(relu) as first, Runner.open(double) as second:
        one, two = first.session(), second.session()
        x = signed(4, 3)
        middle = one.infer({"x": x}, synchronise=False)["y"]
        np.testing.assert_array_equal(
            two.infer({"x": middle}, synchronise=False)["y"].numpy(), np.maximum(x, 0) * 2
        )


def test_several_sessions_at_once(relu: bytes) -> None:
    with Runner.open(relu) as runner:
        sessions = [runner.session() for _ in range(4)]
        assert len({session.stream for session in sessions}) == 4
        feeds = [session.upload({"x": signed(16 * (n + 1), 3)}) for n, session in enumerate(sessions)]
        for _ in range(50):
            results = [
                session.infer(fed, synchronise=False) for session, fed in zip(sessions, feeds, strict=True)
            ]
        for session, fed, result in zip(sessions, feeds, results, strict=True):
            session.synchronise()
            np.testing.assert_array_equal(result["y"].numpy(), np.maximum(fed["x"].numpy(), 0))


def test_cuda_graph(relu: bytes) -> None:
    with Runner.open(relu, cuda_graph=True) as runner:
        session = runner.session()
        for batch in (2, 5, 2):
            for _ in range(4):
                x = signed(batch, 3)
                y = session.infer({"x": x})["y"].numpy()
                np.testing.assert_array_equal(y, np.maximum(x, 0))
        assert runner.warnings == []


def test_graph_of_our_own(relu: bytes) -> None:
    """As TensorRT gets it: captured on the second run, launched from then on. TensorRT-RTX, whose engines allocate
    memory while they run, may refuse; then that is said, and the numbers are right all the same."""
    with Runner.open(relu) as runner:
        session = runner.session()
        warnings: list[str] = []
        replay = GraphReplay(session._device, session._stream, warnings.append)
        session._replay = replay
        for batch in (2, 5):
            for _ in range(5):
                x = signed(batch, 3)
                y = session.infer({"x": x})["y"].numpy()
                np.testing.assert_array_equal(y, np.maximum(x, 0))
        captured = any(graph is not None for graph in replay._graphs.values())
        assert captured != bool(warnings)
        assert captured or runner.info.flavour == "tensorrt_rtx"


def test_runtime_cache(relu: bytes, tmp_path: Path) -> None:
    file = tmp_path / "kernels.cache"
    x = signed(4, 3)

    def run() -> list[str]:
        with Runner.open(relu, runtime_cache=file) as runner:
            np.testing.assert_array_equal(runner({"x": x})["y"], np.maximum(x, 0))
            if runner.info.flavour != "tensorrt_rtx":
                pytest.xfail("only TensorRT-RTX has a runtime cache")
        return runner.warnings

    assert run() == [] and file.stat().st_size > 0
    assert run() == []
    file.write_bytes(b"\0" * 1000)
    (warning,) = run()
    assert "made anew" in warning and file.read_bytes() != b"\0" * 1000
    assert run() == []
    assert os.listdir(tmp_path) == ["kernels.cache"]


def test_in_a_child_process(relu: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.plan"
    path.write_bytes(relu)
    request = RunRequest(path)
    info = describe_engine(request)
    assert info.inputs[0].name == "x" and info.device_memory >= 0
    feeds = [{"x": signed(batch, 3)} for batch in (1, 9)]
    done = run_engine(request, feeds)
    for fed, outputs in zip(feeds, done.outputs, strict=True):
        np.testing.assert_array_equal(outputs["y"], np.maximum(fed["x"], 0))
    assert done.info == info


def test_bad_engines_leave_the_gpu_usable(relu: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.plan"
    flavour = load_flavour().name
    for content in (b"", b"text\n" * 100, relu[: len(relu) // 2], relu[:-100], bytes(RNG.bytes(len(relu)))):
        path.write_bytes(content)
        with pytest.raises(UsageError) as error:
            run_engine(RunRequest(path, flavour=flavour), [{"x": signed(1, 3)}])
        assert all(str(path) in problem.where for problem in error.value.problems), error.value
    path.write_bytes(relu)
    assert run_engine(RunRequest(path), [{"x": signed(1, 3)}]).outputs[0]["y"].shape == (1, 3)


def test_too_little_memory() -> None:
    """An output of 768 MiB where half of that is free; and that nothing is broken by it."""
    torch = pytest.importorskip("torch")
    with Runner.open(engine_of(RELU, {"x": ((1, 3), (2, 3), (1 << 26, 3))})) as runner:
        session = runner.session()
        x = torch.ones(1 << 26, 3, device="cuda")
        torch.cuda.empty_cache()
        filler = torch.empty(torch.cuda.mem_get_info()[0] - (384 << 20), dtype=torch.uint8, device="cuda")
        with pytest.raises(UsageError, match="not enough GPU memory"):
            session.infer({"x": x})
        assert session.infer({"x": x[:5]})["y"].numpy().tolist() == [[1, 1, 1]] * 5
        del filler
        torch.cuda.empty_cache()
        assert bool((torch.from_dlpack(session.infer({"x": x})["y"]) == 1).all())


FAULT = """
import sys
import cupy, numpy as np
from pathlib import Path
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.runtime.runner import Runner
runner = Runner.open(Path(sys.argv[1]))
session = runner.session()
session.infer({"x": np.ones((1, 3), np.float32)})
bad = cupy.RawKernel('extern "C" __global__ void bad(float* p) { p[threadIdx.x + (1ull << 45)] = 1; }', "bad")
with cupy.cuda.ExternalStream(session.stream):
    bad((1,), (32,), (cupy.zeros(1, cupy.float32),))
try:
    session.synchronise()
except UsageError as error:
    print(error.problems[0], flush=True)
    import os
    os._exit(9)
"""


def test_a_faulty_kernel_ends_one_process_only(relu: bytes, tmp_path: Path) -> None:
    pytest.importorskip("cupy")
    path = tmp_path / "m.plan"
    path.write_bytes(relu)
    done = subprocess.run(
        [sys.executable, "-c", FAULT, str(path)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 9, done.stderr
    assert "A kernel of the engine failed: CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout
    assert "compute-sanitizer" in done.stdout
    assert run_engine(RunRequest(path), [{"x": signed(1, 3)}]).outputs[0]["y"].shape == (1, 3)


def test_ends_without_leaks(relu: bytes) -> None:
    torch = pytest.importorskip("torch")
    free = []
    for _ in range(6):
        with Runner.open(relu) as runner:
            runner({"x": signed(512, 3)})
        del runner
        torch.cuda.synchronize()
        free.append(torch.cuda.mem_get_info()[0])
    assert free[-1] >= free[1] - (8 << 20)
