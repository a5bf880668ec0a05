"""Default output files without -o, and the files that they never replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.cli.commands.running import Cli, refused, snapshot
from tests.converter.models import relu, written
from trtsmith.converter.cli.default_output import named_after
from trtsmith.converter.convert.pytorch.torch_source import TorchFactory, TorchFile

CONVERT = ("convert", "--no-verify", "-q")


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    (here / "models").mkdir()
    relu(here / "models" / "net.v8.onnx")
    return here


def abs_model(path: Path) -> None:
    written(path, "(float[4] x) => (float[4] y) { y = Abs (x) }")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (Path("models/net.onnx"), "net.plan"),
        (Path("/a/net.v8.onnx"), "net.v8.plan"),
        (Path("net"), "net.plan"),
        (Path("net.v8"), "net.v8.plan"),
        (Path(".onnx"), ".onnx.plan"),
        (Path("net.plan"), "net.plan.plan"),
        (TorchFile(Path("x/program.pt2")), "program.plan"),
        (TorchFactory("package.module:build"), "build.plan"),
    ],
)
def test_names(source: Path | TorchFile | TorchFactory, name: str) -> None:
    assert named_after(source, ".plan") == Path(name)


def test_the_engine_is_named_after_the_model(cli: Cli, folder: Path) -> None:
    ran = cli(*CONVERT, "models/net.v8.onnx")
    assert ran.code == 0 and ran.out.startswith("engine:   net.v8.plan (") and ran.err == ""
    assert "manifest: net.v8.manifest.json" in ran.out
    assert {path.name for path in folder.iterdir()} == {"models", "net.v8.plan", "net.v8.manifest.json"}
    assert {path.name for path in (folder / "models").iterdir()} == {"net.v8.onnx"}


def test_ones_own_engine_is_replaced(cli: Cli, folder: Path) -> None:
    assert cli(*CONVERT, "models/net.v8.onnx").code == 0
    (folder / "net.v8.plan").touch()
    again = cli(*CONVERT, "models/net.v8.onnx")
    assert again.code == 0 and again.err == ""
    abs_model(folder / "models" / "net.v8.onnx")
    ran = cli(*CONVERT, "models/net.v8.onnx")
    assert ran.code == 0
    said = "net.v8.plan already existed, from another net.v8.onnx or an earlier one: it is replaced"
    assert ran.err == f"warning: {said}\n"


def test_anothers_engine_is_not_replaced(cli: Cli, folder: Path) -> None:
    abs_model(folder / "other.onnx")
    assert cli(*CONVERT, "other.onnx", "-o", "net.v8.plan").code == 0
    before = snapshot(folder)
    for more in ((), ("-o", "net.v8.plan")):
        ran = cli(*CONVERT, "models/net.v8.onnx", *more)
        refused(ran, 2, "net.v8.plan exists already, and was made of other.onnx", "--force replaces it")
    refused(cli(*CONVERT, "net.v8.pt2"), 2, "was made of other.onnx")
    assert snapshot(folder) == before
    assert cli(*CONVERT, "models/net.v8.onnx", "--force").code == 0


@pytest.mark.parametrize("there", ["file", "folder", "link"])
def test_what_is_no_engine_of_ours_is_not_replaced(there: str, cli: Cli, folder: Path) -> None:
    path = folder / "net.v8.plan"
    if there == "file":
        path.write_bytes(b"somebody's")
    elif there == "folder":
        path.mkdir()
    else:
        path.symlink_to(folder / "models" / "net.v8.onnx")
    before = snapshot(folder)
    ran = cli(*CONVERT, "models/net.v8.onnx")
    said = {"folder": "the output is a folder", "link": "the output is the model itself"}
    refused(ran, 2, said.get(there, "no net.v8.manifest.json says which model it was made from"))
    assert snapshot(folder) == before


def test_a_model_that_has_the_engines_name_stays(cli: Cli, folder: Path) -> None:
    relu(folder / "net.plan")
    before = snapshot(folder)
    ran = cli(*CONVERT, "net.plan")
    assert ran.code == 0 and (folder / "net.plan").read_bytes() == before["net.plan"]
    assert (folder / "net.plan.plan").is_file()


def test_the_graph_is_named_after_the_model(cli: Cli, folder: Path) -> None:
    for flags, name in (
        ((), "net.v8.rewritten.onnx"),
        (("--expand",), "net.v8.expanded.onnx"),
        (("--plugin-v2",), "net.v8.plugin-v2.onnx"),
        (("--for", "onnxruntime"), "net.v8.onnxruntime.onnx"),
    ):
        ran = cli("rewrite models/net.v8.onnx -q", *flags)
        assert ran.code == 0 and ran.out.startswith(f"{name}: ") and ran.err == ""
        again = cli("rewrite models/net.v8.onnx -q", *flags)
        assert again.code == 0 and again.err == ""
    assert len(list(folder.iterdir())) == 5
