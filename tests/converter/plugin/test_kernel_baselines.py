"""The baselines of `trtsmith plugin bench`, computed on the CPU: the same function in all, or a refusal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.importers.running import some_case
from trtsmith.converter.plugin.bench.kernel_bench import Measured, Times, Unavailable
from trtsmith.converter.plugin.bench.kernel_expansion import expanded_model
from trtsmith.converter.plugin.host.plugin_values import TensorDesc
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import OPS, by_name

torch = pytest.importorskip("torch")

from trtsmith.converter.plugin.bench import kernel_torch  # noqa: E402

TIME_RUNS = kernel_torch.time_runs


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def time_runs(call: Any, sets: int, count: int) -> Times:
        for i in range(sets):
            call(i)
        return Times.of([1.0] * count)

    monkeypatch.setattr(kernel_torch, "DEVICE", "cpu")
    monkeypatch.setattr(kernel_torch, "time_runs", time_runs)


def subject(op_name: str, case_name: str, dtype: str = "float32", sets: int = 3) -> Any:
    op = by_name()[op_name]
    case = next(case for case in op.cases if case.name == case_name)
    generated = case.inputs(np.random.default_rng(3))
    owner: Any = SimpleNamespace(compile_s=1.0, stream=None)
    return kernel_torch.TorchSubject(owner, op, case, generated, dtype, sets)


ROUNDING = {"RegionPool": "by_position"}
"""Cases in which numbers are rounded, of operators of which `some_case` only selects them."""


@pytest.mark.parametrize("op", [op for op in OPS if op.benchmarks], ids=lambda op: op.name)
def test_the_framework_computes_the_operator(op: OpDef) -> None:
    case = ROUNDING.get(op.name) or some_case(op).name
    found = kernel_torch.measure_baselines(subject(op.name, case), ["eager"], 30)
    assert isinstance(found["eager"], Measured), found
    if op.tolerance:
        assert 0 < (found["eager"].error or 0) < op.tolerance["float32"]
    else:
        assert found["eager"].error == 0
    assert ("eager_tf32" in found) == op.tensor_cores


def test_errors_are_against_float64_and_never_finite_for_nan() -> None:
    one = subject("MatrixInverse", "poses")
    right = torch.linalg.inv(one.sets[0]["x"].double())
    assert one.error((right,)) < 1e-14
    assert one.error((right * 1.01,)) == pytest.approx(0.01)
    right[0, 0, 0] = float("nan")
    assert one.error((right,)) == float("inf")


def test_reference_falls_back_on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    one = subject("ModulatedDeformableConvolution", "groups_differ")
    wanted = one._compute_reference()

    def full(*arguments: Any) -> Any:
        raise torch.OutOfMemoryError("full")

    one.op = SimpleNamespace(**{**vars(one.op), "torch_reference": full})
    (found,) = one._compute_reference()
    assert float((found - wanted[0]).norm() / wanted[0].norm()) < 1e-12


def test_sets_are_copies_and_constants_stay_where_they_are() -> None:
    one = subject("ModulatedDeformableConvolution", "odd")
    for name in ("x", "offset", "mask"):
        assert len({tensors[name].data_ptr() for tensors in one.sets}) == 3
        assert all(torch.equal(tensors[name], one.sets[0][name]) for tensors in one.sets)
    for name in ("weight", "bias"):
        assert len({tensors[name].data_ptr() for tensors in one.sets}) == 1
    attention = subject("MultiscaleDeformableAttention", "two_levels")
    assert len({tensors["spatial_shapes"].data_ptr() for tensors in attention.sets}) == 1
    assert attention.framework_sets()[1]["spatial_shapes"].tolist() == [[13, 17], [7, 9]]


def test_a_plain_convolution_has_the_size_of_the_operator() -> None:
    one = subject("ModulatedDeformableConvolution", "strided")
    still = {"offset": torch.zeros_like(one.sets[0]["offset"]), "mask": torch.ones_like(one.sets[0]["mask"])}
    (wanted,) = one.op.torch_reference(one.fields, one.sets[0] | still)
    (found,) = kernel_torch._other(one, "convolution")(0)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    found_all = kernel_torch.measure_baselines(one, ["convolution"], 30)
    assert isinstance(found_all["convolution"], Measured) and found_all["convolution"].error is None


@pytest.mark.parametrize(
    ("op", "case", "baseline", "reason"),
    [
        ("MatrixInverse", "poses", "torchvision", "no such baseline"),
        ("MatrixInverse", "poses", "convolution", "no such baseline"),
        ("DeformableConvolution", "asymmetric_padding", "convolution", "padding differs"),
        ("MatrixInverse", "poses", "expansion", "no CUDA provider"),
    ],
)
def test_what_cannot_be_measured_says_why(op: str, case: str, baseline: str, reason: str) -> None:
    found = kernel_torch.measure_baselines(subject(op, case), [baseline], 30)[baseline]
    assert isinstance(found, Unavailable) and reason in found.reason


def test_a_failing_baseline_gives_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> Any:
        raise RuntimeError("not implemented for 'Half'\nand a trace")

    monkeypatch.setattr(kernel_torch, "_PREPARE", {"eager": fail})
    found = kernel_torch.measure_baselines(subject("MatrixInverse", "poses"), ["eager"], 30)["eager"]
    assert found == Unavailable("RuntimeError: not implemented for 'Half'")


def test_a_slow_compilation_is_ended() -> None:
    began = time.monotonic()
    with (
        pytest.raises(kernel_torch.NotAvailableError, match=r"longer than 0\.1 s"),
        kernel_torch.time_box(0.1),
    ):
        time.sleep(60)
    assert time.monotonic() - began < 30
    with kernel_torch.time_box(0.05):
        pass
    time.sleep(0.1)  # the alarm is off


def test_runs_take_the_sets_in_turn_between_two_events(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("event")

        def elapsed_time(self, other: Event) -> float:
            return 0.25

    monkeypatch.setattr(kernel_torch.torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(
        kernel_torch.torch.cuda, "_sleep", lambda cycles: log.append("busy" if cycles > 0 else "")
    )
    monkeypatch.setattr(kernel_torch.torch.cuda, "Event", Event)
    times = TIME_RUNS(lambda i: log.append(f"run {i}"), 3, 4)
    assert times == Times(250.0, 250.0, 250.0, 250.0, 4)
    assert log[: kernel_torch.WARMUP] == [f"run {i % 3}" for i in range(kernel_torch.WARMUP)]
    expected = [["busy", "event", f"run {(i + kernel_torch.WARMUP) % 3}", "event"] for i in range(4)]
    assert log[kernel_torch.WARMUP :] == [word for group in expected for word in group]


@pytest.mark.parametrize("written", ["all", "first", "half"])
def test_our_results_are_judged_before_and_after_the_timing(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = subject("MatrixInverse", "poses")
    (right,) = one.op.torch_reference(one.fields, one.sets[0])
    made: list[Any] = []
    full = torch.full

    def remember(*arguments: Any, **keywords: Any) -> Any:
        made.append(full(*arguments, **keywords))
        return made[-1]

    class Ready:
        outputs = (TensorDesc("float32", (6, 4, 4)),)
        workspace_size = 64

        def buffers(self, inputs: list[int], outputs: list[int], stream: int) -> int:
            assert inputs == [one.sets[self.next]["x"].data_ptr()]
            assert outputs == [made[self.next].data_ptr()]
            self.next += 1
            return self.next - 1

        next = 0

        def run(self, i: int) -> None:
            made[i].copy_(right)
            if written == "half":
                made[i][3:] = float("nan")

        def enqueue(self, i: int) -> None:
            if written != "first":
                self.run(i)

    @contextmanager
    def prepared(plugin: Any, inputs: list[TensorDesc], allocate: Any) -> Iterator[Ready]:
        assert inputs == [TensorDesc("float32", (6, 4, 4))]
        assert allocate(64) and not allocate(0)
        yield Ready()

    one.bench.creator = lambda name: SimpleNamespace(create=lambda f: nullcontext())
    one.bench.stream = SimpleNamespace(cuda_stream=5)
    monkeypatch.setattr(kernel_torch, "prepared", prepared)
    monkeypatch.setattr(kernel_torch, "time_runs", kernel_torch.time_runs)
    monkeypatch.setattr(kernel_torch.torch, "full", remember)
    monkeypatch.setattr(kernel_torch.torch.cuda, "synchronize", lambda: None)
    measured = one.ours(30)
    assert measured.workspace == 64 and measured.times.count == 30
    assert (measured.error < 1e-6) if written == "all" else (measured.error == float("inf"))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("op", [op for op in OPS if op.benchmarks], ids=lambda op: op.name)
def test_the_expansion_that_is_timed_computes_the_operator(op: Any, dtype: str) -> None:
    case = some_case(op)
    one = subject(op.name, case.name, dtype, sets=2)
    arrays = {name: tensor.numpy() for name, tensor in one.sets[0].items()}
    model = expanded_model(op, case.fields, {n: (str(a.dtype), a.shape) for n, a in arrays.items()})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = [torch.from_numpy(output) for output in session.run(None, arrays)]
    types = op.dtypes(dtype)
    assert [str(f.dtype) for f in found] == [f"torch.{types[port.type]}" for port in op.outputs]
    assert one.error(found) < op.tolerance[dtype] if op.tolerance else one.error(found) == 0
