"""Engines called as modules on a real GPU: torch tensors in PyTorch's streams, against PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.gpu.engines.test_runner import Sizes, engine_of
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.runtime.engine_module import Calling, Engine
from trtsmith.converter.engine.runtime.runner import Runner

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

TWO = """g (float[n, 3] x, float[3] b) => (float[n, 3] y, int64[n] best) {
    s = Add (x, b)
    y = Relu (s)
    best = ArgMax <axis = 1, keepdims = 0> (s)
}"""
SIZES: dict[str, Sizes] = {"x": ((1, 3), (2, 3), (512, 3))}
CALLING = {
    "args": [{"tensor": "x"}],
    "kwargs": {"extra": {"dict": {"b": {"tensor": "b"}}}, "flag": {"value": True}},
    "parameters": ["x"],
    "result": {"dict": {"y": {"tensor": "y"}, "pair": {"tuple": [{"tensor": "best"}, {"value": None}]}}},
}


@pytest.fixture(scope="module")
def plan() -> bytes:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU here")
    return engine_of(TWO, SIZES)


def engine(plan: bytes, calling: Mapping[str, Any] | None = CALLING, **options: Any) -> Engine:
    return Engine(Runner.open(plan, **options), None if calling is None else Calling.parse(calling))


def inputs(n: int, seed: int = 0) -> Sequence[Any]:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return (
        torch.randn(n, 3, device="cuda", generator=generator),
        torch.randn(3, device="cuda", generator=generator),
    )


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_call_gives_what_pytorch_gives(plan: bytes, cuda_graph: bool) -> None:
    with engine(plan, cuda_graph=cuda_graph) as net:
        kept = []
        for n in (2, 512, 1, 2, 2):
            x, b = inputs(n, n)
            made = net(x, extra={"b": b})
            kept.append((made, x, b))
        for made, x, b in kept:  # each call has outputs of its own
            torch.testing.assert_close(made["y"], torch.relu(x + b))
            best, none = made["pair"]
            assert none is None and torch.equal(best, (x + b).argmax(dim=1)) and best.dtype == torch.int64


def test_it_works_in_pytorchs_current_stream(plan: bytes) -> None:
    """The input is made, used and overwritten in one stream, and nothing waits in between."""
    net = engine(plan)
    stream = torch.cuda.Stream()
    x, b = inputs(512)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        made = net(x * 3, extra={"b": b})
        x.zero_()
    x_before = inputs(512)[0]
    stream.synchronize()
    torch.testing.assert_close(made["y"], torch.relu(x_before * 3 + b))
    other = net(*inputs(2)[:1], extra={"b": b})  # on the default stream again
    torch.testing.assert_close(other["y"], torch.relu(inputs(2)[0] + b))


def test_without_a_module_the_outputs_are_a_dict(plan: bytes) -> None:
    x, b = inputs(2)
    made = engine(plan, None)(x, b)
    assert list(made) == ["y", "best"] and made["y"].is_cuda


def test_what_is_in_host_memory_comes_back_to_it(plan: bytes) -> None:
    net = engine(plan, None)
    for n in (2, 512, 2):
        tensors = [tensor.cpu() for tensor in inputs(n, n)]
        wanted = torch.relu(sum(tensors))
        made = net(*tensors)
        assert not made["y"].is_cuda
        torch.testing.assert_close(made["y"], wanted)
        arrays = net(*(tensor.numpy() for tensor in tensors))
        torch.testing.assert_close(torch.from_numpy(arrays["y"]), wanted)
        assert arrays["best"].dtype == "int64" and arrays["best"].shape == (n,)


def test_what_does_not_fit_is_said(plan: bytes) -> None:
    net = engine(plan)
    x, b = inputs(2)
    for wrong, words in (
        (x.cpu(), "is on cpu"),
        (x.half(), "of the type float16"),
        (x[:, :2], "has the shape"),
    ):
        with pytest.raises(UsageError, match=words):
            net(wrong, extra={"b": b})
    with pytest.raises(UsageError, match="outside the optimization profile"):
        net(inputs(513)[0], extra={"b": b})
    torch.testing.assert_close(net(x, extra={"b": b})["y"], torch.relu(x + b))
