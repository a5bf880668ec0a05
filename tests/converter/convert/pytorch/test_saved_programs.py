"""Programs of torch.export.save are loaded from data alone; possible code is refused before PyTorch sees it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import trtsmith
from tests.converter.convert.pytorch.archives import (
    CONSTANTS,
    MODEL,
    SAMPLES,
    WEIGHTS,
    Small,
    everywhere,
    pickled,
    save,
    tampered,
)
from trtsmith.converter.convert.pytorch.callable_operators import refused_operators, unregistered_operators
from trtsmith.converter.convert.pytorch.program_archive import copy_checked


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("saved") / "small.pt2")


def test_a_saved_program_is_converted(saved: Path, tmp_path: Path) -> None:
    done = trtsmith.convert(saved, tmp_path / "net.plan", save_onnx=tmp_path / "net.onnx")
    assert done.passed and done.verdict is not None
    assert done.verdict.inputs == "the module's example, outputs expected: PyTorch's"
    assert [c.output for c in done.verdict.comparisons] == ["y", "pair_0", "pair_1_0"]
    assert done.plan.routes()["plugin"] == 1
    document = json.loads((tmp_path / "net.manifest.json").read_text())
    assert document["profiles"][0]["x"] == {"min": [1, 4], "opt": [2, 4], "max": [8, 4], "values": False}
    assert document["calling"]["parameters"] == ["x", "more"]
    assert document["calling"]["kwargs"] == {"factor": {"value": 3.0}}
    assert trtsmith.check(tmp_path / "net.onnx").convertible


def test_the_copy_is_the_same_program(saved: Path, tmp_path: Path) -> None:
    """Checked against PyTorch's own loading of the original."""
    assert copy_checked(saved, tmp_path / "copy.pt2") >= {"aten::linear.default"}
    mine, theirs = torch.export.load(tmp_path / "copy.pt2"), torch.export.load(saved)
    assert str(mine.graph) == str(theirs.graph) and mine.range_constraints == theirs.range_constraints
    for (name, weight), (other, value) in zip(
        mine.state_dict.items(), theirs.state_dict.items(), strict=True
    ):
        assert name == other and torch.equal(weight, value)
    args, kwargs = theirs.example_inputs
    assert torch.equal(mine.module()(*args, **kwargs)["y"], Small().eval()(*args, **kwargs)["y"])


def code(path: Path) -> str:
    return f"__import__('os').system('touch {path}')"


def size(text: str) -> Callable[[Path], Callable[[Any], Any]]:
    return entry("expr_str", text)


def entry(key: str, text: str) -> Callable[[Path], Callable[[Any], Any]]:
    return lambda mark: lambda d: everywhere(d, key, text.replace("CODE", code(mark)))


def target(text: str) -> Callable[[Path], Callable[[Any], Any]]:
    return entry("target", text)


def name_of_value(text: str) -> Callable[[Path], Callable[[Any], Any]]:
    return lambda mark: (
        lambda d: everywhere(d, "name", text.replace("CODE", code(mark)), lambda old: old == "x")
    )


def tree(kind: str, context: Any) -> Callable[[Path], Callable[[Any], Any]]:
    spec = json.dumps([1, {"type": kind, "context": context, "children_spec": []}])
    return lambda mark: lambda d: everywhere(d, "out_spec", spec)


TEXTS: dict[str, tuple[Callable[[Path], Callable[[Any], Any]], str]] = {
    "a size that is code": (size("CODE"), "is not an arithmetic expression"),
    "a size that calls in arithmetic": (size("Max(2, CODE)"), "is not an arithmetic expression"),
    "a size of an attribute": (size("Symbol.__class__"), "is not an arithmetic expression"),
    "a size of a lambda": (size("(lambda: 2)()"), "is not an arithmetic expression"),
    "a size in a text": (size("Symbol('CODE')"), "is not an arithmetic expression"),
    "a size without an end": (size("2**" * 3000 + "2"), "is not an arithmetic expression"),
    "a function of torch": (target("torch.load"), "is not an operator"),
    "a module that torch imported": (target("torch.os.system"), "is not an operator"),
    "an operator module": (target("_operator.methodcaller"), "is not an operator"),
    "loading a library": (target("torch.ops.load_library.x"), "is not an operator"),
    "an extension": (target("#ext:name"), "is not an operator"),
    "no function at all": (target("os.system"), "is not an operator"),
    "a name with code": (name_of_value("x\nCODE\n"), "is not the name of a value"),
    "a name with brackets": (name_of_value("x=CODE"), "is not the name of a value"),
    "a keyword": (name_of_value("import"), "is not the name of a value"),
    "a weight with quotes": (entry("parameter_name", 'a"); CODE #'), "is not the name of a weight"),
    "a hidden attribute": (entry("parameter_name", "__class__"), "is not the name of a weight"),
    "a tree that imports": (
        tree("collections.defaultdict", json.dumps({"default_factory_module": "os", "default_factory_name": "x"})),
        "nest in 'collections.defaultdict'",
    ),
    "a dict with code": (tree("builtins.dict", json.dumps(["a\nb"])), "has the keys"),
    "an object": (lambda mark: lambda d: d["graph_module"]["graph"]["custom_obj_values"].update(a={}), "objects"),
    "a text anywhere": (lambda mark: lambda d: d["verifiers"].append(code(mark)), "it has the text"),
    "an entry anywhere": (lambda mark: lambda d: d.update({code(mark): 1}), "it has an entry"),
}  # fmt: skip


@pytest.mark.parametrize("case", TEXTS)
def test_texts_that_could_be_more_than_data_are_refused(case: str, saved: Path, tmp_path: Path) -> None:
    change, words = TEXTS[case]
    mark = tmp_path / "mark"
    bad = tampered(saved, tmp_path / "bad.pt2", change(mark))
    with pytest.raises(trtsmith.InvalidModelError) as caught:
        copy_checked(bad, tmp_path / "copy.pt2")
    (problem,) = caught.value.problems
    assert words in problem.what and problem.where == str(bad) and problem.expected and problem.fix
    assert not mark.exists()


CALLS = {
    "an operator that reads files": "aten.from_file.default",
    "an operator that takes memory for sizes": "aten._nested_view_from_buffer.default",
    "an operator that prints": "aten._print.default",
    "a test of PyTorch": "aten._test_string_default.default",
    "a connection": "c10d.send.default",
    "a namespace of PyTorch": "inductor._reinterpret_tensor.default",
    "an operator that nobody registered": "mine.run.default",
    "an attribute of a namespace": "mine.__class__.mro",
    "an attribute of an operator": "aten.add.overloads",
    "a higher operator's attribute": "higher_order.cond.py_impl",
    "the loader": "load_library.x.y",
}


def calling(operator: str) -> Callable[[Any], Any]:
    """Of this operator in the place of the linear layer's."""
    return lambda d: everywhere(d, "target", f"torch.ops.{operator}", lambda old: "linear" in old)


@pytest.mark.parametrize("case", CALLS)
def test_a_saved_program_calls_only_operators_that_become_onnx(
    case: str, saved: Path, tmp_path: Path
) -> None:
    called = copy_checked(tampered(saved, tmp_path / "bad.pt2", calling(CALLS[case])), tmp_path / "copy.pt2")
    refused = [*refused_operators(called, ()), *unregistered_operators(called)]
    assert refused[0] == CALLS[case].replace(".", "::", 1)


def refuse_copy(bad: Path, words: str | None = None) -> None:
    with pytest.raises(trtsmith.InvalidModelError, match=words):
        copy_checked(bad, bad.with_name("copy.pt2"))


@pytest.mark.usefixtures("forked_workers")
def test_a_refused_call_is_a_message(saved: Path, tmp_path: Path) -> None:
    bad = tampered(saved, tmp_path / "bad.pt2", calling("aten.from_file.default"))
    with pytest.raises(trtsmith.InvalidModelError, match="calls 'aten::from_file', which PyTorch's exporter"):
        trtsmith.check(bad)


def test_guards_are_left_out(saved: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    bad = tampered(saved, tmp_path / "bad.pt2", lambda d: d["guards_code"].append(code(mark)))
    copy_checked(bad, tmp_path / "copy.pt2")
    with zipfile.ZipFile(tmp_path / "copy.pt2") as archive:
        assert json.loads(archive.read(f"model/{MODEL}"))["guards_code"] == []
    assert not mark.exists()


def test_pickles_are_never_loaded(saved: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    bad = tampered(saved, tmp_path / "a.pt2", add={SAMPLES: pickled(mark)})
    refuse_copy(bad, "example inputs have objects")
    bad = tampered(saved, tmp_path / "b.pt2", lambda d: everywhere(d, "use_pickle", True), WEIGHTS)
    refuse_copy(bad, "is pickled")
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": False, "tensor_meta": None}
    bad = tampered(
        saved, tmp_path / "c.pt2", lambda d: d["config"].update(a=entry), CONSTANTS,
        add={"data/constants/opaque_obj_0": pickled(mark)},
    )  # fmt: skip
    refuse_copy(bad, "file of the tensor 'a'")
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["data/aotinductor/model/m.so", "data/executorch/x", "../../etc/passwd", "models/b.json"]
)
def test_other_members_are_refused(name: str, saved: Path, tmp_path: Path) -> None:
    bad = tampered(saved, tmp_path / "bad.pt2", add={name: b"x"})
    refuse_copy(bad, "it holds")


def test_sizes_are_held_to_what_is_there(saved: Path, tmp_path: Path) -> None:
    def huge(document: Any) -> None:
        entry = next(iter(document["config"].values()))
        entry["tensor_meta"]["sizes"] = [{"as_int": 1 << 40}]
        entry["path_name"] = "weight_9"

    bad = tampered(saved, tmp_path / "a.pt2", huge, WEIGHTS, add={"data/weights/weight_9": b""})
    refuse_copy(bad, "size of the tensor")
    bomb = tampered(saved, tmp_path / "b.pt2", compression=zipfile.ZIP_DEFLATED)
    refuse_copy(bomb, "members are compressed")


def test_examples_are_held_to_what_is_stored(saved: Path, tmp_path: Path) -> None:
    """A stride of 0 makes any number of elements of one."""
    for size, refused in ((1 << 40, True), (1 << 20, False)):
        stored = io.BytesIO()
        torch.save(((torch.ones(1).expand(size),), {}), stored)
        path = tampered(saved, tmp_path / f"{size}.pt2", add={SAMPLES: stored.getvalue()})
        if refused:
            with pytest.raises(trtsmith.InvalidModelError, match=r"1099511627776\] is stored as 4 bytes"):
                copy_checked(path, tmp_path / "copy.pt2")
        else:
            copy_checked(path, tmp_path / "copy.pt2")


def test_older_formats_and_other_files_are_refused(tmp_path: Path) -> None:
    old = tmp_path / "old.pt2"
    with zipfile.ZipFile(old, "w") as archive:
        archive.writestr("serialized_exported_program.json", "{}")
        archive.writestr("version", "8.1")
    refuse_copy(old, r"PyTorch 2\.8 and before")
    torch.save({"a": torch.ones(2)}, tmp_path / "checkpoint.pt2")
    refuse_copy(tmp_path / "checkpoint.pt2", r"not a program of torch\.export")


@pytest.mark.parametrize("at", [0, 0.3, 0.9, 0.999])
def test_damaged_files_are_refused(at: float, saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    (tmp_path / "bad.pt2").write_bytes(data[: int(len(data) * at)])
    refuse_copy(tmp_path / "bad.pt2")


def test_json_that_is_no_program(saved: Path, tmp_path: Path) -> None:
    for index, data in enumerate([b"[]", b"3", b"{", b"[" * 100_000, b'"' + b"x" * 100]):
        bad = tampered(saved, tmp_path / f"{index}.pt2", add={MODEL: data})
        refuse_copy(bad)


@pytest.mark.usefixtures("forked_workers")
def test_whatever_pytorch_does_not_load_is_said_in_four_parts(saved: Path, tmp_path: Path) -> None:
    """Through the process that loads: valid texts, and no program that PyTorch understands."""

    def another(document: Any) -> None:
        document["schema_version"]["major"] = 999

    bad = tampered(saved, tmp_path / "bad.pt2", another)
    with pytest.raises(trtsmith.InvalidModelError) as caught:
        trtsmith.convert(bad, tmp_path / "net.plan")
    (problem,) = caught.value.problems
    assert "cannot be loaded" in problem.what and problem.where == str(bad)
    assert not (tmp_path / "net.plan").exists()


@pytest.mark.usefixtures("forked_workers")
def test_an_operator_that_nobody_registered(saved: Path, tmp_path: Path) -> None:
    bad = tampered(saved, tmp_path / "bad.pt2", target("torch.ops.nobody.knows.default")(tmp_path))
    with pytest.raises(trtsmith.InvalidModelError, match="'nobody::knows', which no library registered"):
        trtsmith.check(bad)


def test_a_program_that_takes_too_long(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(trtsmith.ConversionError) as caught:
        trtsmith.convert(saved, tmp_path / "net.plan", export_timeout=0.5)
    (problem,) = caught.value.problems
    assert "did not finish within 0.5 s" in problem.what and "export_timeout=" in problem.fix
    with pytest.raises(trtsmith.UsageError, match="export_timeout"):
        trtsmith.check(saved, export_timeout=-1)


@pytest.mark.usefixtures("forked_workers")
def test_a_size_that_never_ends_is_ended(saved: Path, tmp_path: Path) -> None:
    bad = tampered(saved, tmp_path / "bad.pt2", size("9**9**9**9**9")(tmp_path))
    with pytest.raises(trtsmith.TrtsmithError):
        trtsmith.convert(bad, tmp_path / "net.plan", export_timeout=5)
    assert not (tmp_path / "net.plan").exists()


@pytest.mark.usefixtures("forked_workers")
def test_examples_may_be_missing(saved: Path, tmp_path: Path) -> None:
    without = tampered(saved, tmp_path / "w.pt2", add={SAMPLES: b""})
    with pytest.raises(trtsmith.UsageError, match="no example inputs"):
        trtsmith.convert(without, tmp_path / "net.plan")
