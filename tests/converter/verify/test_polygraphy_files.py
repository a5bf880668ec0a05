"""Polygraphy's JSON, written and read by its own library at the other end."""

from __future__ import annotations

import base64
import io
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from polygraphy.comparator import IterationResult, RunResults, StreamingDataLoader
from polygraphy.json import load_json, save_json

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.verify import polygraphy_files as files

A = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
TWO: list[dict[str, np.ndarray]] = [{"x": A, "i": np.arange(3)}, {"x": -A, "i": np.array(True)}]


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[n], other[n]) and one[n].dtype == other[n].dtype for n in one
    )


def results(*runners: str, iterations: int = 2) -> RunResults:
    return RunResults(
        [(name, [IterationResult(dict(one), 0.1, name) for one in TWO[:iterations]]) for name in runners]
    )


@pytest.mark.parametrize("name", ["in.json", "folder"])
def test_inputs_that_we_write_are_polygraphys(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    files.check_target(path, [], "--save-inputs", "the inputs")
    files.save_inputs_json(path, TWO, "--save-inputs")
    assert all(map(same, StreamingDataLoader([str(path)]), TWO))
    assert all(same(one, two) for (_, one), two in zip(files.load_inputs_json([path], "f"), TWO, strict=True))
    assert [entry.name for entry in tmp_path.iterdir()] == [name]  # nothing half-written is left


@pytest.mark.parametrize("name", ["out.json", "folder"])
def test_outputs_that_we_write_are_polygraphys(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    files.save_outputs_json(path, TWO, "--save-outputs")
    runs = list(RunResults.load_streaming(str(path)))
    assert [list(run.keys()) for run in runs] == [[files.ENGINE]] * 2
    assert all(same(dict(run[files.ENGINE][0].items()), one) for run, one in zip(runs, TWO, strict=True))
    assert all(map(same, files.load_outputs_json(path, "f"), TWO))


def test_what_polygraphy_writes_is_read(tmp_path: Path) -> None:
    save_json([OrderedDict(one) for one in TWO], str(tmp_path / "in.json"))
    save_json(OrderedDict(TWO[0]), str(tmp_path / "one.json"))
    paths = [tmp_path / "in.json", tmp_path / "one.json"]
    read = list(files.load_inputs_json(paths, "f"))
    assert [Path(name).name for name, _ in read] == ["in.json", "in.json", "one.json"]
    assert all(same(one, two) for (_, one), two in zip(read, [*TWO, TWO[0]], strict=True))
    results("trt").save(str(tmp_path / "out.json"))
    assert all(map(same, files.load_outputs_json(tmp_path / "out.json", "f"), TWO))


def test_tensors_of_pytorch_are_read(tmp_path: Path) -> None:
    import torch

    tensors = {"x": torch.from_numpy(A), "h": torch.full((2,), 1.5, dtype=torch.bfloat16)}
    save_json([tensors], str(tmp_path / "in.json"))
    ((_, read),) = files.load_inputs_json([tmp_path / "in.json"], "f")
    assert np.array_equal(read["x"], A) and read["h"].dtype == np.float32 and read["h"][1] == 1.5


def test_types_that_numpy_has_not_come_back_exactly(tmp_path: Path) -> None:
    values = {"b": A.astype(ml_dtypes.bfloat16), "e": A.astype(ml_dtypes.float8_e4m3fn), "x": A}
    files.save_inputs_json(tmp_path / "in.json", [values], "f")
    (plain,) = load_json(str(tmp_path / "in.json"))
    assert {array.dtype for array in plain.values()} == {np.dtype(np.float32)}
    ((_, read),) = files.load_inputs_json([tmp_path / "in.json"], "f")
    types = {"b": "bfloat16", "e": "float8_e4m3fn", "x": "float32", "absent": "bfloat16"}
    assert same(files.of_types(read, types), values)
    assert (
        files.of_types({"b": A}, types)["b"].dtype == np.float32
    )  # values that the type has not stay, and are refused


def pickled() -> str:
    stream = io.BytesIO()
    np.save(stream, np.array([{}], object), allow_pickle=True)
    return base64.b64encode(stream.getvalue()).decode()


BAD = {
    "empty": "",
    "text": "hello",
    "deep": "[" * 100_000,
    "no iteration": "[]",
    "numbers": "[1, 2]",
    "lists": '[{"x": [1, 2]}]',
    "an unknown type": '{"polygraphy_class": "Strange"}',
    "a broken array": '[{"x": {"array": "AAAA", "polygraphy_class": "ndarray"}}]',
    "a pickle": json.dumps([{"x": {"array": pickled(), "polygraphy_class": "ndarray"}}]),
}


@pytest.mark.parametrize("kind", BAD)
def test_files_that_polygraphy_did_not_write(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(BAD[kind])
    for read in (
        lambda: list(files.load_inputs_json([path], "--flag")),
        lambda: files.load_outputs_json(path, "--flag"),
    ):
        with pytest.raises(UsageError, match="the file cannot be read") as error:
            read()
        (problem,) = error.value.problems
        assert problem.where == f"--flag {path}" and len(problem.what) < 400
    assert capsys.readouterr() == ("", "")  # Polygraphy's logger writes to where results go


@pytest.mark.parametrize("there", ["nothing", "an empty folder"])
def test_paths_without_iterations(there: str, tmp_path: Path) -> None:
    path = tmp_path / "in"
    if there != "nothing":
        path.mkdir()
    with pytest.raises(UsageError, match=r"no such file|holds no \.json files"):
        list(files.load_inputs_json([path], "--load-inputs"))


def test_outputs_are_no_inputs_and_inputs_no_outputs(tmp_path: Path) -> None:
    outputs, inputs = tmp_path / "out.json", tmp_path / "in.json"
    results("a").save(str(outputs))
    save_json(TWO, str(inputs))
    with pytest.raises(UsageError, match="it holds the outputs of runners, not inputs"):
        list(files.load_inputs_json([outputs], "f"))
    with pytest.raises(UsageError, match="the file cannot be read"):
        files.load_outputs_json(inputs, "f")
    for names in (("a", "b"), ("a", "a")):
        results(*names, iterations=1).save(str(outputs))
        with pytest.raises(UsageError, match="the outputs of several runners: 'a'"):
            files.load_outputs_json(outputs, "f")


def test_targets_that_cannot_be_written(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "0.json").write_text("{}")
    for path in (full, tmp_path / "full/0.json/x", tmp_path / "none/x.json", tmp_path / "none/x"):
        with pytest.raises(UsageError):
            files.check_target(path, [], "--save-inputs", "the inputs")
    with pytest.raises(UsageError, match="would replace"):
        files.check_target(full / "0.json", [full / "0.json"], "--save-inputs", "the inputs")
    with pytest.raises(UsageError, match="cannot be written"):
        files.save_inputs_json(tmp_path / "none/x", TWO, "--save-inputs")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["0.json", "full"]


def test_without_polygraphy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    path = tmp_path / "x.json"
    for call in (
        lambda: list(files.load_inputs_json([path], "--load-inputs")),
        lambda: files.load_outputs_json(path, "--load-outputs"),
        lambda: files.check_target(path, [], "--save-inputs", "the inputs"),
    ):
        with pytest.raises(UsageError) as error:
            call()
        (problem,) = error.value.problems
        assert problem.what == "Polygraphy is not installed" and "trtsmith's extra: polygraphy" in problem.fix
        assert str(path) in problem.where
