"""The saved folder is written completely or not at all, replaces nothing else, and keeps types that .npz files lack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.models import load, value
from trtsmith.converter.base.arrays import load_arrays
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.locate import save_repro
from trtsmith.converter.locate.save_repro import FILES, Reproducer, check_folder, save_reproducer
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run

X = np.array([1.5, -2.25, 3.0], ml_dtypes.bfloat16)


@pytest.fixture
def found(tmp_path: Path) -> Reproducer:
    node = oh.make_node("Identity", ["x"], ["y"], name="same")
    edge = [3], TensorProto.BFLOAT16
    model = load(tmp_path / "m.onnx", [node], [value("x", *edge)], [value("y", *edge)])
    return Reproducer(model, {"x": X}, {"y": X}, {"y": X + 1}, "what is wrong")


def test_bfloat16_is_saved_exactly(found: Reproducer, tmp_path: Path) -> None:
    save_reproducer(found, tmp_path / "out")
    folder = tmp_path / "out"
    assert {path.name for path in folder.iterdir()} < FILES
    inputs, expected, actual = (dict(np.load(folder / f"{n}.npz")) for n in ("inputs", "expected", "actual"))
    assert [a.dtype for a in (*inputs.values(), *expected.values())] == [np.float32, np.float32]
    assert np.array_equal(next(iter(inputs.values())), X.astype(np.float32))
    assert np.array_equal(next(iter(actual.values())), (X + 1).astype(np.float32))
    ran = run(load_model(folder / "node.onnx"), inputs)
    assert {name: array.tolist() for name, array in ran.items()} == {
        n: a.tolist() for n, a in expected.items()
    }
    assert "what is wrong" in (folder / "README.txt").read_text()


def test_tensors_of_any_name_are_saved(tmp_path: Path) -> None:
    """numpy.savez has arguments of its own by some of these names, and takes "/" for a folder."""
    names = ["file", "allow_pickle", "a/b:0"]
    nodes = [oh.make_node("Concat", names, ["kwds"], name="all", axis=0)]
    model = load(tmp_path / "m.onnx", nodes, [value(n, [2]) for n in names], [value("kwds", [6])])
    arrays = {name: np.array([index, -1.5], np.float32) for index, name in enumerate(names)}
    result = {"kwds": np.concatenate([*arrays.values()])}
    save_reproducer(Reproducer(model, arrays, result, result, "text"), tmp_path / "out")
    saved = load_arrays(tmp_path / "out" / "inputs.npz", "replay")
    np.testing.assert_equal(saved, arrays)


def full(*arguments: object, **arrays: object) -> None:
    raise OSError(28, "No space left on device")


def interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


def refuse(*arguments: object) -> None:
    raise OSError(1, "Operation not permitted")


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("broken", "how", "kind", "words"),
    [
        ("write_npz", full, UsageError, "No space left"),
        ("os.rename", interrupt, KeyboardInterrupt, None),
        ("os.rename", refuse, UsageError, "not permitted"),
    ],
    ids=["no space", "an interruption", "a rename that fails"],
)
def test_a_failure_leaves_what_was_there(
    broken: str, how: Callable[..., None], kind: type[BaseException], words: str | None, before: bool, found: Reproducer,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if before:
        save_reproducer(replace(found, text="first"), tmp_path / "out")
    monkeypatch.setattr(f"{save_repro.__name__}.{broken}", how)
    with pytest.raises(kind, match=words):
        save_reproducer(replace(found, text="second"), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == (["m.onnx", "out"] if before else ["m.onnx"])
    assert not before or "first" in (tmp_path / "out" / "README.txt").read_text()


def test_where_a_node_is_saved_by_default() -> None:
    assert save_repro.saved_folder(Path("some/m.v2.onnx")) == Path("m.v2.located")
    assert save_repro.saved_folder(Path("")) == Path("model.located")


def test_an_earlier_search_is_replaced(found: Reproducer, tmp_path: Path) -> None:
    for text in ("first", "second"):
        save_reproducer(replace(found, text=text), tmp_path / "out")
    assert "second" in (tmp_path / "out" / "README.txt").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "out"]


def test_folders_of_others_are_never_replaced(tmp_path: Path) -> None:
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("")
    for path, words in (
        (strange, "'thesis.tex'"), (tmp_path / "file", "a file of that name"), (tmp_path / "no" / "where", "does not exist"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            check_folder(path, force=True)
    check_folder(tmp_path / "new", force=False)


def test_arrays_of_the_user_are_not_replaced_for_their_names(found: Reproducer, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    save_reproducer(found, folder)
    check_folder(folder, force=False)
    np.savez(folder / "expected.npz", y=np.ones(3))
    with pytest.raises(UsageError, match="the folder has other files"):
        check_folder(folder, force=False)
    check_folder(folder, force=True)
    for name in FILES - {"inputs.npz"}:
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(UsageError, match=r"'inputs\.npz'"):
        check_folder(folder, force=False)
