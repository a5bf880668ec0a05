"""Commands and files that exist already."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import Cli, refused, snapshot
from tests.converter.models import relu, written
from trtsmith.converter.base.arrays import save_arrays
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.own_files import (
    ARRAYS,
    CACHE,
    EXAMPLE,
    OVERLAY,
    POLYGRAPHY,
    REPORT,
    REWRITTEN,
    OwnFile,
)
from trtsmith.converter.engine.bundle.bundle import file_digest, manifest_path
from trtsmith.converter.engine.bundle.earlier_engine import check_replaced, engines_broken

RTX = importlib.util.find_spec("tensorrt_rtx") is not None

CONVERT = "convert relu.onnx -o out.plan --flavour tensorrt_rtx --no-verify -q"


@pytest.fixture(autouse=True)
def model(here: Path) -> Path:
    relu(here / "relu.onnx")
    return here


PLACED: dict[str, Callable[[Path], None]] = {
    "link": lambda path: path.symlink_to("mine"),
    "hard link": lambda path: os.link("mine", path),
    "pipe": os.mkfifo,
}


@pytest.mark.skipif(not RTX, reason="TensorRT-RTX is not installed, which builds without a GPU")
@pytest.mark.parametrize("placed", PLACED)
def test_nothing_that_lies_beside_your_files_is_opened_for_writing(placed: str, cli: Cli) -> None:
    mine = Path("mine")
    mine.write_bytes(b"mine")
    names = (".cache.lock", ".out.plan.lock", ".lock", f".cache.{os.getpid()}.tmp")
    for name in names:
        PLACED[placed](Path(name))
    ran = cli(f"{CONVERT} --timing-cache cache --report r.json --html p.html")
    assert ran.code == 0 and ran.err == ""
    assert mine.read_bytes() == b"mine" and Path("cache").is_file()
    assert all(
        Path(name).is_symlink() or not Path(name).is_file() or Path(name).samefile(mine) for name in names
    )


REPLACED: dict[str, tuple[str, str]] = {
    "engine": ("convert relu.onnx -o {} --no-verify", ".plan"),
    "report": ("check relu.onnx --report {}", ".json"),
    "conversion": ("convert relu.onnx -o e.plan --no-verify --report {}", ".json"),
    "page": ("convert relu.onnx -o e.plan --no-verify --html {}", ".html"),
    "graph": ("rewrite relu.onnx -o {}", ".onnx"),
    "expanded": ("rewrite relu.onnx --expand -o {}", ".onnx"),
    "zoo": ("batch --init . -o {}", ".toml"),
}
"""By what is written, the command and the ending of the file."""

PARTS = ("engine", "conversion", "page")


@pytest.mark.parametrize("what", REPLACED)
def test_without_force_a_command_replaces_only_what_it_wrote_itself(what: str, cli: Cli) -> None:
    if what in PARTS and not RTX:
        pytest.skip("TensorRT-RTX is not installed, which builds without a GPU")
    words, ending = REPLACED[what]
    file = Path(f"file{ending}")
    words = f"{words.format(file)} -q" if what != "zoo" else words.format(file)
    file.write_text('{\n "mine": 1\n}\n')
    before = snapshot()
    refused(cli(words), 2, "file", "--force")
    assert snapshot() == before
    assert cli(f"{words} --force").code == 0
    ours = file.read_bytes()
    assert not ours.startswith(before[file.name])
    if what != "zoo":  # which is written to be changed
        assert cli(words).code == 0
    file.write_bytes(b"")
    file.with_suffix(".manifest.json").unlink(missing_ok=True)
    assert cli(words if what != "zoo" else f"{words} --force").code == 0 and file.read_bytes()


def test_kinds_of_files_do_not_stand_for_each_other(cli: Cli) -> None:
    assert cli("check relu.onnx --report r.json -q").code == 0
    assert cli("rewrite relu.onnx -o g.onnx -q").code == 0
    assert (
        cli("rewrite g.onnx -o again.onnx -q").code == 0 and cli("rewrite g.onnx -o again.onnx -q").code == 0
    )
    assert [entry.value for entry in onnx.load("again.onnx").metadata_props] == ["rewritten"]
    before = snapshot()
    refused(
        cli("rewrite relu.onnx -o r.json"), 2, "r.json, which is not a graph that `trtsmith rewrite` wrote"
    )
    refused(cli("check relu.onnx --report g.onnx"), 2, "g.onnx, which is not a report of trtsmith's")
    refused(cli("rewrite g.onnx -o relu.onnx"), 2, "relu.onnx, which is not a graph that")
    assert snapshot() == before


@pytest.mark.skipif(not RTX, reason="TensorRT-RTX is not installed, which builds without a GPU")
def test_an_engine_is_replaced_by_one_of_the_same_model_alone(cli: Cli) -> None:
    written(Path("other.onnx"), "(float[4] x) => (float[4] y) { y = Abs (x) }")
    assert cli("convert relu.onnx -o net.engine --no-verify -q").code == 0
    before = snapshot()
    for words, said in (
        ("convert other.onnx -o net.engine", "net.engine exists already, and was made of relu.onnx"),
        ("convert relu.onnx -o net.trt", "net.manifest.json is the manifest of net.engine"),
        (
            "convert relu.onnx -o other.plan --report net.manifest.json",
            "net.manifest.json, which is not a report",
        ),
        ("rewrite relu.onnx -o net.engine", "net.engine, which is not a graph"),
    ):
        refused(cli(f"{words} -q"), 2, said, "--force")
        assert snapshot() == before
    assert cli("convert relu.onnx -o net.engine --no-verify -q").code == 0
    assert cli("convert other.onnx -o net.engine --no-verify -q --force").code == 0
    assert '"other.onnx"' in Path("net.manifest.json").read_text()
    assert cli("convert relu.onnx -o net.trt --no-verify -q --force").code == 0
    Path("net.manifest.json").write_text("mine")
    refused(cli("convert relu.onnx -o net.trt -q"), 2, "net.manifest.json is no manifest of trtsmith's")


NAMED = """(float[4] {input}) => (float[4] {output}) <float[4] {constant} = {{1, 2, 3, 4}}>
{{ [{node}] {value} = Add ({input}, {constant}) {output} = Tanh ({value}) }}"""


@pytest.mark.parametrize("part", ["input", "output", "constant", "node", "value"])
def test_a_name_that_tensorrt_cannot_have_is_refused_before_the_build(part: str, cli: Cli) -> None:
    names = {name: name for name in ("input", "output", "constant", "node", "value")}
    written(Path("m.onnx"), NAMED.format(**names | {part: "a" * 4095}))
    assert cli("check m.onnx -q").code == 0
    written(Path("m.onnx"), NAMED.format(**names | {part: "a" * 1_000_000}))
    before = snapshot()
    refused(cli("convert m.onnx -o out.plan -q"), 1, "a name has 1,000,000 bytes", "at most 4,095 bytes")
    assert snapshot() == before


def test_a_library_of_another_engine_is_not_replaced(tmp_path: Path) -> None:
    library, there = tmp_path / "lib" / "libp.so", tmp_path / "out" / "libp.so"
    engine = there.parent / "m.plan"
    for folder in (library.parent, engine.parent):
        folder.mkdir()
    library.write_bytes(b"new")
    check_replaced(engine, "m.onnx", [library])
    there.write_bytes(b"old")
    with pytest.raises(UsageError, match=r"libp.so is another library than .*lib/libp.so"):
        check_replaced(engine, "m.onnx", [library])
    check_replaced(engine, "m.onnx", [there])
    there.write_bytes(b"new")
    check_replaced(engine, "m.onnx", [library])
    there.write_bytes(b"old")  # of an earlier conversion of this model
    files = {"m.plan": "sha256:0", "libp.so": "sha256:1"}
    manifest_path(engine).write_text(json.dumps({"model": {"file": "m.onnx"}, "files": files}))
    check_replaced(engine, "m.onnx", [library])
    assert not list(engines_broken(engine, [library]))
    (there.parent / "mine.manifest.json").write_text("mine")
    files = {"two.plan": "sha256:0", "libp.so": file_digest(there)}
    (there.parent / "two.manifest.json").write_text(json.dumps({"files": files}))
    (warned,) = engines_broken(engine, [library])
    assert warned.startswith("two.plan in this folder was built with the previous libp.so")
    with pytest.raises(UsageError, match=r"--force replaces it and breaks two.plan; -o in another folder"):
        check_replaced(there.parent / "three.plan", "m.onnx", [library])
    there.write_bytes(b"new")
    assert not list(engines_broken(engine, [library]))


@pytest.mark.parametrize(
    ("own", "ours", "mine"),
    [
        (REPORT, b'{"sentence": "", "status": ""}', b'{"trtsmith": "0.1.0", "files": {}}'),
        (REPORT, b'{"format": 1, "runs": []}', b'{"runs": []}'),
        (REPORT, b'{"converted": false}', b'["converted"]'),
        (OVERLAY, b'{"results": {}}', b"[" * 100_000),
        (POLYGRAPHY, b"[[]] \n", b"[[]]\n"),
        (CACHE, b"ptrtd\0\0\0", b"a note of mine"),
        (EXAMPLE, b"\x08\x08\x12\x0ftrtsmith op new", b"\x08\x08"),
    ],
    ids=lambda one: one.what if isinstance(one, OwnFile) else "",
)
def test_whose_a_file_is(own: OwnFile, ours: bytes, mine: bytes, tmp_path: Path) -> None:
    for content, is_ours in ((ours, True), (mine, False), (b"", True)):
        file = tmp_path / "file"
        file.write_bytes(content)
        assert own.is_replaceable(file) is is_ours
        assert not is_ours or not content or not REWRITTEN.is_replaceable(file)


def test_arrays_of_trtsmith_are_replaced_and_others_are_not(tmp_path: Path) -> None:
    ours, mine = tmp_path / "ours.npz", tmp_path / "mine.npz"
    save_arrays(ours, {"x": np.ones(3)}, "-o")
    np.savez(mine, x=np.ones(3))
    assert ARRAYS.is_replaceable(ours) and not ARRAYS.is_replaceable(mine)
    assert np.load(ours)["x"].sum() == 3


def test_a_model_that_is_missing_is_said_before_an_engine_that_exists(cli: Cli) -> None:
    Path("out.plan").write_bytes(b"mine")
    ran = cli("convert rlu.onnx -o out.plan --flavour tensorrt_rtx")
    refused(ran, 2, "The model file does not exist", "did you mean relu.onnx?")
    assert "out.plan" not in ran.err
    refused(cli(CONVERT), 2, "out.plan exists already")
    assert Path("out.plan").read_bytes() == b"mine"
