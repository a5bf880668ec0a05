"""Names and types in models, manifests and array files run no command, forge no output, and take no memory."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.converter.cli.commands.running import CONTROL, refused, trtsmith
from tests.processes import checkout_environment
from tests.security.test_messages import FORGING, NAME
from trtsmith.converter.base.arrays import load_arrays, save_arrays
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shape_tensors import suggest_values
from trtsmith.converter.base.options.shapes import InputSpec, suggest
from trtsmith.converter.cli.commands.run import render_description
from trtsmith.converter.cli.reports import engine_times, native_times
from trtsmith.converter.cli.reports.comparison import render_verdict
from trtsmith.converter.engine.bundle import build_here
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.engine.bundle.origin import origin_of
from trtsmith.converter.engine.bundle.run_from_bundle import EngineDescription, Manifest, request_for
from trtsmith.converter.verify.compare import compare
from trtsmith.converter.verify.findings import finding
from trtsmith.converter.verify.verdict import DISAGREE, Verdict, verdict_of

ROOT = Path(__file__).resolve().parents[2]
SHELL = "x';touch pwned #"
SAYS_ALL_IS_WELL = "z\x1b[2K\revery output agrees\nevery output agrees"


def written(path: Path, source: str = "x", result: str = "y") -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in (source, result)]
    graph = helper.make_graph([helper.make_node("Relu", [source], [result])], "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def folder_for_device(where: Path, output: str = "y", actual: float = 1.0) -> Path:
    """As `--bundle-for` writes it, without a model, and with what trtexec would leave: it prints names as they are."""
    where.mkdir()
    device = {"build": [], "run": [], "outputs": [{"name": output, "relative": 0.01}], "files": {}}
    (where / "model.manifest.json").write_text(json.dumps({"device": device, "tensorrt": {}}))
    (where / "build_here.py").write_bytes(Path(build_here.__file__).read_bytes())
    for name, values in (("inputs", {}), ("expected", {output: np.ones(1, np.float32)}), ("bounds", {})):
        save_arrays(where / f"{name}.npz", values, "-o")
    text = f'[\n  {{ "name" : "{output}"\n  , "dimensions" : "1"\n  , "values" : [ {actual} ]\n  }}\n]\n'
    (where / "outputs.json").write_bytes(text.encode())
    return where


@pytest.mark.parametrize("actual", [1.0, 2.0])
def test_it_cannot_speak_for_us_on_a_device(
    tmp_path: Path, actual: float, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_for_device(tmp_path / "there", SAYS_ALL_IS_WELL, actual)
    entries = json.loads((folder / "model.manifest.json").read_text())["device"]["outputs"]
    refused = [{"name": "r", "left_out": f"the node {NAME} was not run", "accepted": True}]
    code = build_here.compare(folder, [*entries, *refused])
    said = capsys.readouterr().out
    assert code == (0 if actual == 1 else 3) and not CONTROL.search(said) and not FORGING.search(said)
    assert said.splitlines().count("every output agrees") == (actual == 1)


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("#!/bin/sh\nprintf 'node \\033[2K\\377\\rerror: forged\\n'\nexit 1\n", 1, "trtexec did not build the engine"),
        ("#!/bin/sh\necho TensorRT v100300\n", 0, ""),
        ("no program at all", 2, "Exec format error"),
        (None, 2, "name TensorRT's with --trtexec PATH"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_what_fails_on_a_device_is_a_message(
    program: str | None, code: int, said: str, locale: str, tmp_path: Path
) -> None:
    folder = folder_for_device(tmp_path / "there")
    if program is not None:
        (tmp_path / "trtexec").write_text(program)
        (tmp_path / "trtexec").chmod(0o755)
    command = [sys.executable, "there/build_here.py", "--trtexec", "./trtexec"]
    environment = checkout_environment(LC_ALL=locale, PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr, done
    assert not CONTROL.search(done.stdout + done.stderr) and not re.search(
        "^error: forged", done.stderr, re.M
    )
    assert folder.is_dir()


def test_a_folder_that_is_not_whole_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["build_here.py"])
    monkeypatch.setattr(build_here, "__file__", str(tmp_path / "build_here.py"))
    for text in (None, "{", "{}", '{"device": {"files": {}, "outputs": []}}'):
        if text is not None:
            (tmp_path / "model.manifest.json").write_text(text)
        assert build_here.main() == 2 and capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("name", ["b:/etc/hostname,a", "a'b", 'a"b', "a\\b", "a\0b"])
@pytest.mark.parametrize("kind", ["input", "output"])
def test_a_name_is_no_command_of_trtexec(
    name: str,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    written(Path("m.onnx"), **{"source" if kind == "input" else "result": name})
    refused(trtsmith(capsys, "convert", "m.onnx", "--bundle-for", "orin"), 2, f"the {kind} ", "trtexec")
    assert os.listdir() == ["m.onnx"]


def left_out(name: str) -> str:
    """What is advised for an output that is NaN everywhere."""
    nowhere = np.full(2, np.nan, np.float32)
    outputs = {name: nowhere, "other": np.arange(2.0)}
    return verdict_of(compare(outputs, outputs), "generated", engine_run=False).advice.rpartition(": ")[2]


ADVICE: dict[str, Callable[[], str]] = {
    "shapes": lambda: "--shapes " + suggest(InputSpec(SHELL, "float32", (None,), ("",))),
    "values": lambda: "--values " + suggest_values(InputSpec(SHELL, "int64", (2,), ("",))),
    "not compared": lambda: left_out(SHELL),
}


@pytest.mark.parametrize("which", ADVICE)
def test_a_name_is_no_command(which: str) -> None:
    words = shlex.split(ADVICE[which]())
    assert len(words) == 2 and SHELL in words[1]


def test_a_name_is_no_command_in_what_rules_advise() -> None:
    """A template with a value to fill in, --freeze NAME=VALUE, is what people paste: its name is quoted."""
    bare = re.compile(r"--[a-z][a-z-]* \{(?!(shlex\.)?quote\()[^{}'\"]+\}=[A-Z]")
    sources = {path: path.read_text() for path in (ROOT / "converter").rglob("*.py")}
    found = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path, text in sources.items()
        for line in text.splitlines()
        if bare.search(line)
    }
    assert found == set()


RUN = {
    "point": "opt",
    "shapes": {NAME: [2]},
    "cuda_graph": False,
    "streams": 1,
    "transfers": False,
    "unavailable": NAME,
}
LAYERS = {"layers": [{"share": 1.0, "ms": 1.0, "type": NAME, "plugin": True, "layer": NAME}], "sum_ms": 1.0,
          "inferences": 1, "by_type": [{"type": NAME, "share": 1.0, "layers": 1}],
          "by_plugin": [{"plugin": NAME, "share": 1.0, "layers": 1}]}  # fmt: skip
NATIVE = {"plugin": {"unavailable": NAME}, "native": {"unavailable": NAME}, "ratio": None, "nodes": [],
          "nodes_unavailable": NAME}  # fmt: skip
TOLD = (finding("not run", which=NAME, what=NAME, fix=NAME),)
SAID: dict[str, Callable[[], str]] = {
    "verify": lambda: render_verdict(
        Verdict(DISAGREE, False, NAME, findings=TOLD, warnings=(NAME,), not_run=NAME), NAME, Path(NAME)
    ),
    "run": lambda: render_description(EngineDescription(Manifest(NAME, NAME, (NAME,), {}, (), False), (), (), 0)),
    "bench": lambda: engine_times._run(RUN),
    "layers": lambda: engine_times.render_layers(LAYERS, 3),
    "plugin and native": lambda: native_times.render(NATIVE),
}  # fmt: skip


@pytest.mark.parametrize("command", SAID)
def test_it_cannot_speak_for_us_in_results(command: str) -> None:
    assert not FORGING.search(SAID[command]())


@pytest.mark.parametrize(
    "dtype", ["V2000000000", "U500000000", "S2000000000", "(2000000000,)f4", "f4,f4", "x", "", "O"]
)
def test_a_manifest_cannot_ask_for_memory(dtype: str, tmp_path: Path) -> None:
    engine = tmp_path / "m.plan"
    engine.write_bytes(b"an engine")
    frozen = {"name": "k", "dtype": dtype, "shape": [1], "sha256": "sha256:0", "value": ["a"]}
    edge = {"name": "x", "before": dtype, "after": "float32"}
    manifest = {"tensorrt": {"flavour": "tensorrt", "version": "10.0"}, "targets": [], "files": {}}
    for read, part in ((origin_of, {"frozen": [frozen]}), (request_for, {"io_types": [edge]})):
        manifest_path(engine).write_text(json.dumps(manifest | part))
        with pytest.raises(UsageError, match="is not an element type"):
            read(engine)


NPZ: dict[str, Callable[[Path], dict[str, np.ndarray]]] = {
    "the command": lambda path: load_arrays(path, "--inputs"),
    "the script for a device": lambda path: build_here.arrays_of(path),
}


@pytest.mark.parametrize("reader", NPZ)
@pytest.mark.parametrize("names", [("x", "x.npy"), ("x.npy", "x"), ("x.npy", "x.npy.npy", "file")])
def test_an_array_comes_back_under_its_own_name(reader: str, names: tuple[str, ...], tmp_path: Path) -> None:
    arrays = {name: np.full(2, number) for number, name in enumerate(names)}
    save_arrays(tmp_path / "a.npz", arrays, "-o")
    found = NPZ[reader](tmp_path / "a.npz")
    assert list(found) == list(names)
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())


def _loads(node: ast.AST) -> bool:
    """Whether it calls numpy.load."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load")


def test_an_array_comes_back_under_its_own_name_wherever_files_are_read() -> None:
    """Whoever reads an .npz file that is not ours does so through one of the readers above."""
    reads = {
        path.relative_to(ROOT / "converter").as_posix()
        for path in (ROOT / "converter").rglob("*.py")
        if any(map(_loads, ast.walk(ast.parse(path.read_text()))))
    }
    ours = "verify/input_generation/pictures.py"
    assert reads <= {"base/arrays.py", "engine/bundle/build_here.py", "cli/commands/run.py", ours}
