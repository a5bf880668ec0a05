"""An engine called like its module: arguments by structure, tensors in place, outputs in the module's form.

Behind the call is a stand-in on the CPU, of a Runner or of TensorRT; tests/gpu/engines has the real one.
"""

from __future__ import annotations

import json
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import trtsmith
from tests.converter.convert.pytorch.modules import detector_head, poses
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.runtime import engine_module
from trtsmith.converter.engine.runtime.call_structure import (
    filled,
    leaves_of,
    parse_structure,
    structure_of,
    taken,
)
from trtsmith.converter.engine.runtime.engine_module import Calling, Engine
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.tensors import TensorSpec
from trtsmith.converter.rewrite.types import IoType

Pair = namedtuple("Pair", "first second")


class StandIn:
    """A Runner whose engine is a function of dicts of tensors. asked: what it was given, the very objects."""

    def __init__(self, inputs: tuple[TensorSpec, ...], compute: Callable[[Any], Any]) -> None:
        self.info = SimpleNamespace(inputs=inputs)
        self.compute = compute
        self.asked: list[dict[str, Any]] = []
        self.sessions = 0
        self.streams: list[Any] = []
        self.cuda_graph = False
        self.closed = False
        self.memory: dict[str, Any] = {}

    def session(self, *, stream: object = None) -> Any:
        self.sessions += 1
        self.streams.append(stream)
        return self

    def infer(self, feeds: dict[str, Any], *, synchronise: bool) -> dict[str, Any]:
        assert not synchronise
        self.asked.append(feeds)
        self.memory = self.compute(feeds)  # a session writes its own memory again
        return self.memory

    def close(self) -> None:
        self.closed = True


def spec(
    name: str, dtype: str = "float32", shape: tuple[int, ...] = (-1, 3), on_host: bool = False
) -> TensorSpec:
    return TensorSpec(name, dtype, shape, True, on_host)


def engine_of(
    inputs: tuple[TensorSpec, ...], compute: Callable[[Any], Any], calling: Any = None, io_types: Any = ()
) -> tuple[Engine, StandIn]:
    runner: Any = StandIn(inputs, compute)
    given = None if calling is None else Calling.parse(json.loads(json.dumps(calling)))
    return Engine(runner, given, io_types=io_types, device="cpu"), runner


DOUBLE = (spec("x"),), lambda feeds: {"y": feeds["x"] * 2}
NESTED = {
    "args": [{"tensor": "a"}, {"list": [{"tensor": "b"}, {"value": None}]}],
    "kwargs": {"scale": {"tensor": "c"}, "flag": {"value": True}},
    "parameters": ["a", "pair"],
    "result": {
        "named": "Pair",
        "fields": {"first": {"tensor": "y"}, "second": {"dict": {"z": {"tensor": "z"}}}},
    },
}


def test_a_graph_is_not_captured_in_the_default_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    default, other = SimpleNamespace(cuda_stream=0), SimpleNamespace(cuda_stream=7)
    current = [default]
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current[0])
    engine, runner = engine_of(*DOUBLE)
    engine.device = "cuda:0"
    for graphs, stream, wanted in ((False, default, default), (True, default, None), (True, other, other)):
        runner.cuda_graph, current[0] = graphs, stream
        engine._sessions.clear()
        engine._session()
        assert runner.streams[-1] is wanted


def test_one_tensor_in_and_out_without_copies_of_the_input() -> None:
    engine, runner = engine_of(*DOUBLE)
    x = torch.ones(2, 3)
    y = engine(x)
    assert torch.equal(y, x * 2) and runner.asked[0]["x"].data_ptr() == x.data_ptr()
    assert y.data_ptr() != runner.memory["y"].data_ptr()  # which the next call writes again
    assert torch.equal(engine(x=x + 1), x * 2 + 2) and runner.sessions == 1
    with engine:
        pass
    assert runner.closed


def test_numpy_arrays_give_numpy_arrays_without_pytorch(
    open_runner: Callable[..., Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it fails
    io = (IoType("x", "float64", "float32"), IoType("y", "float64", "float32"))
    engine = Engine(open_runner(b"double", io_types=io), io_types=io)
    first, second = (engine(np.full((2, 3), value)) for value in (1.0, 2.0))
    assert isinstance(first, np.ndarray) and first.dtype == np.float64
    np.testing.assert_array_equal(first, np.full((2, 3), 2.0))  # the next call left it alone
    np.testing.assert_array_equal(second, np.full((2, 3), 4.0))
    assert isinstance(Engine(open_runner(b"constant"))(), np.ndarray)
    for wrong, words in (
        (np.ones((2, 4)), r"shape \[2, 4\]"),
        (np.ones((2, 3), np.int32), "int32"),
        ([[1.0]], "builtins.list"),
    ):
        with pytest.raises(UsageError, match=words):
            engine(wrong)


def test_tensors_in_host_memory_give_such_tensors(open_runner: Callable[..., Runner]) -> None:
    engine = Engine(open_runner(b"add"))
    a = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.bfloat16, requires_grad=True)
    made = engine(a, b=torch.ones(4, dtype=torch.bfloat16))
    assert torch.equal(made["y"], a.detach() + 1) and made["less"].dtype == torch.bool
    assert made["y"].dtype == torch.bfloat16 and made["y"].device.type == "cpu"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((torch.ones(4, dtype=torch.bfloat16), np.ones(4, ml_dtypes.bfloat16)), "'b' is a numpy.ndarray"),
        ((torch.ones(4, dtype=torch.bfloat16), torch.ones(4, dtype=torch.bfloat16, device="meta")), "on cpu"),
    ],
)
def test_inputs_of_one_call_are_of_one_kind(
    given: tuple[Any, ...], words: str, open_runner: Callable[..., Runner]
) -> None:
    with pytest.raises(UsageError) as caught:
        Engine(open_runner(b"add"), device="meta")(*given)
    (problem,) = caught.value.problems
    assert words in problem.what and problem.expected and problem.fix


def test_several_outputs_without_a_module_are_a_dict() -> None:
    engine, _ = engine_of((spec("x"),), lambda feeds: {"y": feeds["x"], "z": feeds["x"] + 1})
    assert list(engine(torch.zeros(1, 3))) == ["y", "z"]


def test_arguments_and_results_nest_as_the_modules() -> None:
    inputs = (spec("a"), spec("b"), spec("c"))
    engine, _ = engine_of(inputs, lambda f: {"y": f["a"] + f["b"], "z": f["c"]}, NESTED)
    a, b, c = torch.ones(1, 3), torch.ones(1, 3) * 2, torch.ones(1, 3) * 4
    for result in (
        engine(a, [b, None], scale=c),
        engine(a, (b, None), scale=c, flag=True),
        engine(pair=[b, None], a=a, scale=c),
    ):
        assert type(result).__name__ == "Pair" and result._fields == ("first", "second")
        assert torch.equal(result.first, a + b) and torch.equal(result.second["z"], c)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "the argument 'a' is missing"),
        ((1, 2, 3), {}, "3 positional arguments are given, and there are 2"),
        ((torch.ones(1, 3), [torch.ones(1, 3)]), {}, "pair has 1 element, not 2"),
        ((torch.ones(1, 3), torch.ones(1, 3)), {}, "pair is a Tensor, not a sequence"),
        ((torch.ones(1, 3), [torch.ones(1, 3), 3]), {}, "pair[1] is 3, and the engine was built with None"),
        ((torch.ones(1, 3), [torch.ones(1, 3), None]), {"flag": False}, "flag is False"),
        (
            (torch.ones(1, 3), [torch.ones(1, 3), None]),
            {"scale": torch.ones(1, 3), "more": 1},
            "no argument 'more'",
        ),
    ],
)
def test_calls_that_the_module_would_not_take(args: Any, kwargs: Any, words: str) -> None:
    engine, runner = engine_of((spec("a"), spec("b"), spec("c")), lambda f: {}, NESTED)
    with pytest.raises(UsageError) as caught:
        engine(*args, **{"scale": torch.ones(1, 3), **kwargs} if "missing" not in words else kwargs)
    (problem,) = caught.value.problems
    assert words in problem.what and "(a, pair, scale=, flag=)" in problem.expected and problem.fix
    assert runner.asked == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([[1.0, 2.0, 3.0]], "is a builtins.list"),
        (torch.ones(2, 3, dtype=torch.float64), "is of the type float64"),
        (torch.ones(2, 3, device="meta"), "is on meta"),
        (torch.ones(3), "has the shape [3]"),
    ],
)
def test_tensors_that_do_not_fit(value: Any, words: str) -> None:
    engine, runner = engine_of(*DOUBLE)
    with pytest.raises(UsageError) as caught:
        engine(value)
    (problem,) = caught.value.problems
    assert words in problem.what and problem.where == "input 'x'" and problem.expected and problem.fix
    assert runner.asked == []


def test_all_that_is_wrong_is_said_at_once() -> None:
    engine, _ = engine_of((spec("a"), spec("b")), lambda f: {})
    with pytest.raises(UsageError) as caught:
        engine(torch.ones(1, 3).half(), torch.ones(3))
    assert len(caught.value.problems) == 2


def test_types_are_the_modules_and_gradients_stay_outside() -> None:
    io = (IoType("x", "float64", "float32"), IoType("y", "float64", "float32"))
    engine, runner = engine_of(*DOUBLE, io_types=io)
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    y = engine(x)
    assert runner.asked[0]["x"].dtype == torch.float32 and y.dtype == torch.float64 and not y.requires_grad


def test_what_is_not_contiguous_is_made_so_and_shapes_may_lie_in_host_memory() -> None:
    engine, runner = engine_of((spec("x"), spec("s", "int64", (2,), True)), lambda f: {"y": f["x"]})
    x = torch.arange(6.0).reshape(3, 2).T
    assert torch.equal(engine(x, torch.tensor([2, 3])), x) and runner.asked[0]["x"].is_contiguous()


def test_arguments_that_are_constants_of_the_engine_are_left_out() -> None:
    calling = {
        "args": [{"tensor": "x"}, {"tensor": "k"}],
        "kwargs": {},
        "parameters": ["x", "k"],
        "result": {"tensor": "y"},
    }
    engine, runner = engine_of(*DOUBLE, calling)
    engine(torch.ones(1, 3), torch.ones(7))
    assert runner.asked[0].keys() == {"x"}


@pytest.mark.parametrize("named", [True, False])
def test_load_goes_by_the_manifest_or_by_what_convert_returned(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, args, kwargs, shapes = detector_head()
    output = tmp_path / "net.plan" if named else None
    done = trtsmith.convert(module, args, kwargs, dynamic_shapes=shapes, output=output, verify=None)
    made: list[Any] = []

    def stand_in(engine: Any, **options: Any) -> Any:
        made.append((engine, options))
        return StandIn((spec("image"), spec("boxes"), spec("scores")), lambda f: {})

    monkeypatch.setattr(engine_module.Runner, "load", staticmethod(stand_in))
    monkeypatch.setattr(engine_module.Runner, "open", staticmethod(stand_in))
    for given in [done, output] if output is not None else [done]:
        engine = trtsmith.load(given, cuda_graph=True, device=1)
        given_to, options = made[-1]
        assert given_to == done.engine and options["cuda_graph"] and options["device"] == 1
        assert engine.device == "cuda:1"
        assert engine._calling == Calling.parse(done.calling)
        if not named:
            assert options["plugins"] == list(done.libraries) and options["flavour"] == done.built.flavour


def test_an_engine_that_is_not_there_and_a_manifest_that_was_touched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        trtsmith.load(tmp_path / "none.plan")
    module, args, kwargs, shapes = poses()
    trtsmith.convert(module, args, kwargs, dynamic_shapes=shapes, output=tmp_path / "net.plan", verify=None)
    manifest = tmp_path / "net.manifest.json"
    document = json.loads(manifest.read_text())
    for wrong in ([], {"args": 3}, {**document["calling"], "result": {"named": "a b", "fields": {}}}):
        manifest.write_text(json.dumps(document | {"calling": wrong}))
        with pytest.raises(UsageError, match="manifest cannot be read"):
            trtsmith.load(tmp_path / "net.plan")


VALUES = [1, None, "a", (1, [2.0, {"k": (True,)}]), Pair(1, {"b": None}), []]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_structures_are_plain_data_and_come_back(value: Any) -> None:
    structure = parse_structure(json.loads(json.dumps(structure_of(value, lambda v: None))))
    assert filled(structure, {}) == value and list(taken(structure, value, "x")) == []


def test_structures_of_tensors() -> None:
    structure = structure_of(
        {"a": ("T", ["U"])}, lambda v: {"tensor": v.lower()} if isinstance(v, str) else None
    )
    assert list(leaves_of(structure)) == ["t", "u"] and filled(structure, {"t": 1, "u": 2}) == {"a": (1, [2])}
    assert dict(taken(structure, {"a": (5, [6])}, "x")) == {"t": 5, "u": 6}
    with pytest.raises(TypeError, match="complex is not a tuple"):
        structure_of(1j, lambda v: None)


@pytest.mark.parametrize(
    "wrong",
    [3, {}, {"tensor": 3}, {"tuple": 3}, {"value": []}, {"named": "import", "fields": {}},
     {"named": "P", "fields": {"_x": {"value": 1}}}, {"dict": []}],
    ids=str,
)  # fmt: skip
def test_structures_from_files_are_held_to_their_forms(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        parse_structure(wrong)


def test_structures_are_not_endless() -> None:
    deep: Any = {"value": 1}
    for _ in range(100):
        deep = {"list": [deep]}
    with pytest.raises(ValueError, match="too deeply"):
        parse_structure(deep)
