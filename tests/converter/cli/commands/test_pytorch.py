"""PyTorch programs on the command line: package.module:function and .pt2 files; stdout stays for results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import pytest

from tests.converter.cli.commands.running import Cli, refused, refuses, shell, snapshot
from tests.converter.convert.pytorch.archives import everywhere, pickled, save, tampered
from tests.processes import checkout_environment

FACTORIES = """
import sys
import torch
print("the user's module prints")

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x)

EXAMPLE = (torch.eye(3).repeat(2, 1, 1) * 2,)
BATCH = ({0: torch.export.Dim("batch", min=1, max=4)},)

def pair():
    print("the user's function prints", flush=True)
    sys.stderr.write("and writes to stderr")
    return Net(), EXAMPLE

def four():
    return Net(), EXAMPLE, {}, BATCH

def named():
    return {"module": Net(), "args": EXAMPLE, "dynamic_shapes": BATCH}

class Job:
    def __init__(self):
        self.module, self.args, self.dynamic_shapes = Net(), EXAMPLE, BATCH

def program():
    return torch.export.export(Net(), EXAMPLE, dynamic_shapes=BATCH)

def raises():
    raise ValueError("not today")

def deep():
    return torch.nn.Linear(2, 2).to("nowhere")

def exits():
    import os
    os._exit(3)

def sleeps():
    import time
    time.sleep(60)

def number():
    return 3

def bare():
    return Net()

exported = program()
"""

PLAIN = """
import torch

class Plain(torch.nn.Module):
    def forward(self, x):
        return x.relu()

class Sized(Plain):
    def __init__(self, size):
        super().__init__()

plain = Plain()

def bare():
    return Plain()
"""


@pytest.fixture(autouse=True)
def home(here: Path) -> Path:
    (here / "mine").mkdir()
    (here / "mine" / "nets.py").write_text(FACTORIES)
    return here


def test_a_function_gives_the_module(home: Path, cli: Cli) -> None:
    ran = cli("convert mine.nets:pair -o net.plan --save-onnx net.onnx")
    assert ran.code == 0 and "verdict: agree" in ran.out and "outputs expected: PyTorch's" in ran.out
    assert ran.out.startswith("engine:   net.plan") and "prints" not in ran.out
    for said in ("the user's module prints", "the user's function prints", "and writes to stderr"):
        assert f"mine.nets:pair: {said}" in ran.err
    assert json.loads(Path("net.manifest.json").read_text())["calling"]["parameters"] == ["x"]
    assert [node.op_type for node in onnx.load("net.onnx").graph.node] == ["MatrixInverse"]


@pytest.mark.usefixtures("forked_workers")
def test_a_function_of_a_file_gives_the_module(home: Path, cli: Cli) -> None:
    """What lies beside the file can be imported, by its plain name or, in a package, by a relative one."""
    (home / "mine" / "first.py").write_text("from nets import pair")
    ran = cli("convert mine/first.py:pair --no-verify")
    assert ran.code == 0 and "mine/first.py:pair: the user's function prints" in ran.err
    assert ran.out.startswith("engine:   pair.plan")
    (home / "mine" / "__init__.py").write_text("")
    (home / "mine" / "first.py").write_text("from .nets import *")
    assert cli("check", str(home / "mine" / "first.py:pair")).code == 0


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("name", ["four", "named", "Job", "program", "exported"])
def test_what_a_function_may_give(name: str, home: Path, cli: Cli) -> None:
    ran = cli(f"check mine.nets:{name} --json")
    assert ran.code == 0
    document = json.loads(ran.out)
    assert document["convertible"] and document["model"] == f"mine.nets:{name}"


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("mine.nets:raises", 2, "raises raised: ValueError: not today"),
        ("mine.nets:nothing", 2, "has no 'nothing'"),
        ("mine.other:pair", 2, "the module 'mine.other' cannot be imported"),
        ("mine.other:pair", 2, "where:    mine.other:pair\n"),
        ("mine.nets:deep", 2, "where:    mine.nets:deep, nets.py line "),
        ("mine/other.py:pair", 2, "there is no file 'mine/other.py'"),
        ("mine/nets.py:nothing", 2, "has no 'nothing'"),
        ("mine/nets.py:raise", 2, "did you mean 'raises'?"),
        ("mine.nets:exits", 1, "exited with code 3, while calling mine.nets:exits"),
        ("mine.nets:sleeps", 1, "did not finish within 3 s"),
        ("mine.nets:number", 2, "gives an object of the type int"),
        ("mine.nets:bare", 2, "no example inputs"),
    ],
)
def test_functions_that_do_not(name: str, code: int, words: str, home: Path, cli: Cli) -> None:
    before = snapshot(home)
    limit = "3" if name.endswith("sleeps") else "300"
    ran = cli("convert", name, "-o", "net.plan", "--export-timeout", limit)
    refused(ran, code, words)
    assert {n: d for n, d in snapshot(home).items() if "__pycache__" not in n} == before


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize(
    ("name", "said", "module"),
    [
        ("Plain", "no example inputs", "Plain()"),
        ("plain", "no example inputs", "plain"),
        ("bare", "no example inputs", "bare()"),
        ("Sized", "Sized.__init__() missing 1 required positional argument: 'size'", "Sized(size=...)"),
    ],
)
def test_a_module_without_its_example_is_told_the_function_to_write(
    name: str, said: str, module: str, home: Path, cli: Cli
) -> None:
    file = home / "mine" / "plain.py"
    file.write_text(PLAIN)
    ran = cli(f"check mine/plain.py:{name}")
    refused(ran, 2, said)
    spec, written = ran.err.partition("write a function, and give ")[2].split("\n")[0].split(": ", 1)
    assert f"return {module}, " in written
    file.write_text(f"{PLAIN}\n{written.replace('...', '3')}\n")
    assert cli(f"check {spec}").code == 0


CLASSES = f"""{PLAIN}
def kind():
    return Plain

def beside():
    return Sized, (torch.rand(1, 3, 8, 8),)
"""


@pytest.mark.usefixtures("forked_workers")
def test_a_class_in_place_of_a_module_is_told_the_instance_to_give(home: Path, cli: Cli) -> None:
    file = home / "mine" / "classes.py"
    file.write_text(CLASSES)
    ran = cli("check mine/classes.py:kind")
    refused(ran, 2, "gives the class Plain in place of an instance", "fix:      return Plain(), (torch.rand(")
    fix = ran.err.partition("fix:      ")[2].split("\n")[0]
    file.write_text(CLASSES.replace("return Plain\n", f"{fix}\n"))
    assert cli("check mine/classes.py:kind").code == 0
    refused(cli("check mine/classes.py:beside"), 2, "fix:      write Sized(size=...) in place of Sized\n")


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize(
    ("name", "arguments"), [("Linear", "in_features=..., out_features=..."), ("ReLU", "")]
)
def test_a_class_of_a_package_is_told_the_file_to_write(
    name: str, arguments: str, home: Path, cli: Cli
) -> None:
    ran = cli(f"check torch.nn:{name}")
    refused(ran, 2, "write a file make_model.py, and give make_model.py:make:\n", f"{name}({arguments}), ")
    lines = [line.strip() for line in ran.err.partition("make_model.py:make:\n")[2].splitlines()[:2]]
    (home / "make_model.py").write_text("\n".join(lines).replace("...", "224"))
    assert cli("check make_model.py:make").code == 0


def test_an_impossible_target_is_refused_before_an_export(home: Path, cli: Cli) -> None:
    ran = cli("convert mine.nets:sleeps --target sm86,sm90")
    refused(ran, 2, "cannot build for sm90")
    assert "mine.nets:sleeps" not in ran.err


def test_a_saved_program(home: Path, cli: Cli) -> None:
    save(home / "small.pt2")
    ran = cli("rewrite small.pt2 -o small.onnx -q")
    assert ((ran.code, ran.err) == (0, "") and "1 node rewritten" in ran.out) or "0 nodes" in ran.out
    assert "MatrixInverse" in {node.op_type for node in onnx.load("small.onnx").graph.node}


OWN = """
import torch
from tests.outside.mixing import LOG_ODDS, OPERATORS

@torch.library.custom_op("mycompany::logit", mutates_args=())
def logit(p: torch.Tensor) -> torch.Tensor:
    return torch.logit(p)

@logit.register_fake
def _(p):
    return torch.empty_like(p)
"""

SAVE = """
import torch, own

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.ops.mycompany.logit(torch.sigmoid(x))

torch.export.save(torch.export.export(Net(), (torch.rand(3),)), "own.pt2")
"""


@pytest.mark.usefixtures("forked_workers")
def test_operators_that_a_saved_program_calls_come_from_ops(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "own.py").write_text(OWN)
    (home / "save.py").write_text(SAVE)
    assert shell(f"{sys.executable} save.py").code == 0
    monkeypatch.setenv("PYTHONPATH", checkout_environment()["PYTHONPATH"])
    refused(cli("check own.pt2"), 2, "calls 'mycompany::logit', which no library registered", "--ops")
    ran = cli("rewrite own.pt2 -o own.onnx --ops own.py")
    assert ran.code == 0, ran.err
    assert "LogOdds" in {node.op_type for node in onnx.load("own.onnx").graph.node}


@pytest.mark.usefixtures("forked_workers")
def test_a_hostile_program_ends_with_a_message_and_nothing_else(home: Path, cli: Cli) -> None:
    good = save(home / "good.pt2")
    mark = home / "mark"
    tampered(good, home / "a.pt2", add={"data/sample_inputs/model.pt": pickled(mark)})
    code = f"__import__('os').system('touch {mark}')"
    tampered(good, home / "b.pt2", lambda d: everywhere(d, "expr_str", code))
    (home / "c.pt2").write_bytes(b"PK\x03\x04" + bytes(500))
    said = {
        "a": "have objects",
        "b": "is not an arithmetic expression",
        "c": "cannot be read",
        "d": "No such file",
    }
    for name, words in said.items():
        refuses(cli, 2, f"convert {name}.pt2 -o net.plan", words)


def test_flags_of_programs_beside_an_onnx_file(cli: Cli) -> None:
    refused(cli("check model.onnx --save-onnx o.onnx"), 2, "model.onnx is an ONNX model already")
    refused(cli("check a.pt2 --export-timeout 0"), 2, "is not a positive number of seconds")
