"""`trtsmith op new` writes packages that pass their own tests, and says why if it cannot."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import onnx
import pytest

from tests.converter.cli.commands.running import Cli, Ran, refused, shell, snapshot
from tests.converter.models import written
from trtsmith import testing

MODEL = """<ir_version: 9, opset_import: ["" : 18, "acme" : 1]>
g (float[N, 6] x, float[6] w) => (float[N, 3] z) {
  h = Relu (x)
  [gate] y = acme.GatedHalf <alpha = 0.25, groups = 2> (h, w)
  z = Identity (y)
}
<domain: "acme", opset_import: ["" : 18]>
GatedHalf <alpha: float = 0.1, groups> (data, weight) => (out) {
  scaled = LeakyRelu <alpha: float = @alpha> (data)
  weighted = Mul (scaled, weight)
  two = Constant <value = int64[1] {2}> ()
  minus = Constant <value = int64[1] {-1}> ()
  zero = Constant <value = int64[1] {0}> ()
  shape = Shape (weighted)
  first = Gather <axis = 0> (shape, zero)
  sizes = Concat <axis = 0> (first, minus, two)
  parts = Reshape (weighted, sizes)
  axes = Constant <value = int64[1] {2}> ()
  out = ReduceSum <keepdims = 0> (parts, axes)
}"""

FUNCTIONS = '''"""Functions of PyTorch tensors."""
import torch

def window_pool(features: torch.Tensor, weights: torch.Tensor, window: int = 3, mean: bool = False):
    """Weighted sums of windows."""
    groups = features.shape[0] // window
    used = groups * window
    parts = features[:used].reshape(groups, window, features.shape[1])
    sums = (parts * weights[:used].reshape(groups, window, 1)).sum(1)
    return sums / window if mean else sums

def counted(x: torch.Tensor):
    return x.nonzero()

def broken(x: torch.Tensor):
    raise ValueError("not today")

def number(x: torch.Tensor):
    return 3
'''


HALF = """def gated_half(input, input_2, alpha=0.25, groups=2):
    scaled = (input.clamp(min=0) + alpha * input.clamp(max=0)) * input_2
    return scaled.reshape(scaled.shape[0], -1, 2).sum(2)
"""


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), "model.onnx")
    (here / "pools.py").write_text(FUNCTIONS)


def own_tests() -> Ran:
    """As its user runs them."""
    return shell(f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:xdist package")


def test_a_package_is_written_and_nothing_else(here: Path, cli: Cli) -> None:
    ran = cli("op new VoxelMaxPool --domain mycompany")
    assert (ran.code, ran.out) == (0, "voxel_max_pool\n")
    assert "trtsmith op build voxel_max_pool" in ran.err
    files = {name for name, content in snapshot(here / "voxel_max_pool").items() if content is not None}
    assert files == {
        *(
            ".gitignore",
            "README.md",
            "example.onnx",
            "plugins.cmake",
            "pyproject.toml",
            "tests/test_voxel_max_pool.py",
        ),
        *(f"kernels/voxel_max_pool.{end}" for end in ("cu", "cuh")),
        *("ops/voxel_max_pool.cpp", "voxel_max_pool/__init__.py", "voxel_max_pool/definition.py"),
    }
    text = b"".join(content for content in snapshot(here / "voxel_max_pool").values() if content)
    assert b"\n/voxel_max_pool/lib/\n" in (here / "voxel_max_pool" / ".gitignore").read_bytes()
    assert b"@snake@" not in text and b"@Name@" not in text
    onnx.checker.check_model("voxel_max_pool/example.onnx")


def test_its_tests_ask_for_the_library_and_pass_otherwise(here: Path, cli: Cli) -> None:
    cli("op new VoxelMaxPool --domain mycompany -o package")
    ran = own_tests()
    assert "run trtsmith op build" in ran.out
    assert "2 failed, 22 passed" in ran.out, ran.out


def test_its_test_of_shapes_takes_names_from_the_definition(here: Path, cli: Cli) -> None:
    cli("op new VoxelMaxPool --domain mycompany -o package")
    definition = here / "package" / "voxel_max_pool" / "definition.py"
    definition.write_text(definition.read_text().replace("weights", "masses"))
    ran = shell(
        f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:xdist package -k shapes_that_do_not_fit"
    )
    assert "1 passed" in ran.out, ran.out


def test_an_operator_of_each_element(here: Path, cli: Cli) -> None:
    assert cli("op new LeakyClamp --domain mycompany --elementwise").code == 0
    checked = cli("check leaky_clamp/example.onnx --ops leaky_clamp")
    assert checked.code == 1 and "the operator LeakyClamp has no compiled plugin" in checked.err
    more = "op new LeakyClamp --domain mycompany --elementwise -o other"
    refused(cli(more, "--from-triton", "kernels.py:clamp"), 2, "leave out one of the two")
    refused(cli(more, "--from-torch", "pools:window_pool"), 2, "--elementwise")
    assert not (here / "other").exists()


def test_from_a_node_with_a_body(here: Path, cli: Cli) -> None:
    ran = cli("op new GatedHalf --from-model model.onnx --node gate -o package")
    assert ran.code == 0 and "no kernel yet" in ran.err, ran
    definition = (here / "package" / "gated_half" / "definition.py").read_text()
    assert 'data[1] // fields["groups"]' in definition
    assert 'EQUAL = ((("data", 1), ("weight", 0)),)' in definition
    assert 'Attr("alpha", Kind.FLOAT, 0.1)' in definition
    built, tested = cli("op build package"), cli("op test package")
    assert built.code == 0 and "nothing to compile" in built.out
    assert tested.code == 0 and "no plugin to test" in tested.out
    assert own_tests().code == 0
    checked = cli("check model.onnx --ops package")
    assert checked.code == 0 and "by its expansion, as it has no kernel" in checked.out


def test_the_example_follows_a_change_of_the_definition(here: Path, cli: Cli) -> None:
    assert cli("op new GatedHalf --from-model model.onnx --node gate -o package").code == 0
    definition = here / "package" / "gated_half" / "definition.py"
    definition.write_text(definition.read_text().replace('"groups": 2', '"groups": 3'))
    assert cli("op example package") == Ran(0, "package/example.onnx\n", "")
    (node,) = onnx.load("package/example.onnx").graph.node
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert (node.domain, node.op_type, values) == ("acme", "GatedHalf", {"alpha": 0.25, "groups": 3})
    assert cli("check package/example.onnx --ops package").code == 0
    assert cli("op example package --case other_sizes_1 -o other.onnx").out == "other.onnx\n"
    refused(cli("op example package --case smal"), 2, "did you mean 'small'?")
    refused(cli("op example package -o none/other.onnx"), 2, "none")


def test_a_stale_example_names_what_writes_it_again(here: Path, cli: Cli) -> None:
    assert cli("op new GatedHalf --from-model model.onnx --node gate -o package").code == 0
    testing.check_example("package/example.onnx", "package")
    model = onnx.load("package/example.onnx")
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value += 1
    onnx.save(model, "other.onnx")
    with pytest.raises(AssertionError, match=r"the model says .*; if .*`trtsmith op example package`"):
        testing.check_example("other.onnx", "package")
    model.graph.node[0].attribute[0].name = "older"
    onnx.save(model, "other.onnx")
    with pytest.raises(AssertionError, match=r"(?s)unknown attribute 'older'.*`trtsmith op example package`"):
        testing.check_example("other.onnx", "package")


def test_plugins_that_are_not_compiled_are_not_tested(here: Path, cli: Cli) -> None:
    assert cli("op new VoxelMaxPool --domain mycompany -o package").code == 0
    refused(cli("op test package"), 2, "the package is not compiled", "trtsmith op build package\n")
    refused(cli("op test none"), 2, "none")


def test_from_a_node_that_the_model_says_nothing_of(here: Path, cli: Cli) -> None:
    model = onnx.load("model.onnx")
    del model.functions[:]
    onnx.save(model, "model.onnx")
    ran = cli("op new GatedHalf --from-model model.onnx --node y -o package")
    assert ran.code == 0
    steps = (
        *(
            "If you have it in PyTorch, this writes",
            "otherwise to be written: _shape, _reference, _expand, in",
        ),
        *("then: trtsmith op example package\n", "pytest package\n", "trtsmith convert package/example.onnx"),
    )
    assert sorted(steps, key=ran.err.index) == [*steps]
    readme = (here / "package" / "README.md").read_text()
    steps = (
        *("If you have the computation in PyTorch, `", "1. Write `_shape`, `_reference`, `_expand`"),
        *(
            "2. `trtsmith op example .`",
            "3. `pytest .`",
            "$ trtsmith op example .\n$ pytest .\n$ trtsmith convert",
        ),
    )
    assert sorted(steps, key=readme.index) == [*steps] and "op build ." not in readme
    tests = own_tests()
    assert tests.code == 1
    assert "NotImplementedError: write _reference in gated_half/definition.py" in tests.out
    assert "write _expand in gated_half/definition.py" in tests.out
    ran_check = cli("check model.onnx --ops package")
    refused(
        ran_check, 2, "NotImplementedError: write _", "write the function at package/gated_half/definition.py"
    )
    (here / "half.py").write_text(HALF)
    told = re.search(
        "If you have it in PyTorch, .* the name that the function has .*: trtsmith (.*)", ran.err
    )
    assert told is not None and "--example input=3x6 --example input_2=6:float32" in told[1]
    written = re.search("`trtsmith (op new GatedHalf --domain acme --from-torch .*)` writes another", readme)
    assert written is not None and written[1] == told[1].replace("-o package_torch", "-o ../gated_half_torch")
    assert "op new GatedHalfKernel --domain acme" in readme
    command = told[1].replace("FILE.py:FUNCTION", "half.py:gated_half")
    ran = cli(command)
    assert ran.code == 0 and "is taken as a number" not in ran.err, ran
    ran = cli(command.replace("6:float32", "6").replace("package_torch", "scaled"))
    assert "input_2 is taken as a number; as a tensor of 6 elements: --example input_2=6:float32" in ran.err
    assert cli("check model.onnx --ops package_torch").code == 0


def test_from_the_second_unknown_node_of_a_model(here: Path, cli: Cli) -> None:
    """Its inputs have types once the operator before it is defined."""
    assert cli("op new GatedHalf --from-model model.onnx --node gate -o package").code == 0
    model = onnx.load("model.onnx")
    (last,) = model.graph.output
    model.graph.node.add(op_type="After", domain="mine", input=[last.name], output=["end"])
    model.opset_import.add(domain="mine", version=1)
    last.name = "end"
    del model.functions[:], model.graph.value_info[:]
    onnx.save(model, "model.onnx")
    refused(cli("op new After --from-model model.onnx --node end -o after"), 2, "with --ops")
    ran = cli("op new After --from-model model.onnx --node end -o after --ops package")
    assert ran.code == 0 and (here / "after" / "after" / "definition.py").is_file(), ran


def test_from_a_function_of_tensors(here: Path, cli: Cli) -> None:
    words = ["--from-torch", "pools:window_pool", "--example", "features=12x8", "--example", "weights=12"]
    ran = cli("op new WindowPool --domain mycompany", *words, "-o", "package")
    assert ran.code == 0 and "no kernel yet" in ran.err, ran
    definition = (here / "package" / "window_pool" / "definition.py").read_text()
    assert 'features[0] // fields["window"], features[1]' in definition
    assert 'Field("mean", Kind.INT, "parameter mean", default=0, allowed=(0, 1))' in definition
    assert (here / "package" / "window_pool" / "function.py").read_text() == FUNCTIONS
    readme = (here / "package" / "README.md").read_text()
    assert "| `window_pool/function.py` | a copy" in readme and "| `window_pool/body.py` |" in readme
    path = here / "package" / "window_pool" / "definition.py"
    path.write_text(definition.replace('op_type="WindowPool"', 'op_type="PoolOfWindows"'))
    tests = own_tests()
    assert tests.code == 0, tests.out
    (here / "other.py").write_text(OTHER)
    ran = shell(f"{sys.executable} other.py")
    assert ran.out == "(3, 8) 1.0\nTrue\nTrue False False\n", ran


def test_an_edited_function_is_exported_anew(here: Path, cli: Cli) -> None:
    words = ["--from-torch", "pools.py:window_pool", "--example", "features=12x8", "--example", "weights=12"]
    assert cli("op new WindowPool --domain mycompany", *words, "-o", "package").code == 0
    other = re.sub(r"('window': |again\()4", r"\g<1>3", OTHER)
    (here / "other.py").write_text(other.replace("int64 {4}", "{77"))
    assert shell(f"{sys.executable} other.py").out == "(3, 8) 1.0\nFalse\nTrue False False\n"
    edited = FUNCTIONS.replace("else sums", "else sums * 77")
    (here / "package" / "window_pool" / "function.py").write_bytes(edited.replace("\n", "\r\n").encode())
    assert shell(f"{sys.executable} other.py").out == "(3, 8) 1.0\nTrue\nTrue False False\n"


@pytest.mark.parametrize(
    ("line", "raised"),
    [
        ("used = group * window", "NameError: name 'group' is not defined"),
        ("used = features.rows()", "AttributeError: 'FakeTensor' object has no attribute 'rows'"),
        (
            "used = groups * window if weights.sum() > 0 else window",
            "GuardOnDataDependentSymNode: Could not guard",
        ),
    ],
)
def test_a_mistake_in_an_edited_function_is_at_its_line(here: Path, cli: Cli, line: str, raised: str) -> None:
    words = ["--from-torch", "pools.py:window_pool", "--example", "features=12x8", "--example", "weights=12"]
    assert cli("op new WindowPool --domain mycompany", *words, "-o", "package").code == 0
    function = Path("package", "window_pool", "function.py")
    function.write_text(FUNCTIONS.replace("used = groups * window", line))
    refused(
        cli("check package/example.onnx --ops package"),
        2,
        f"its expansion raises {raised}",
        f"where:    {function}, line 7: {line}\n",
        "expected: code that runs without an exception\n",
        f"fix:      correct {function}, line 7, or remove the package\n",
    )


OTHER = """
import torch
from trtsmith.converter.operators.loading import operators_in_force
with operators_in_force(['package']):
    from trtsmith.importers.torch_ops import define_known
    define_known()
    x = torch.ops.trtsmith.window_pool(torch.ones(12, 8), torch.ones(12), 4, 1)
    print(tuple(x.shape), float(x.mean()))
    from trtsmith.importers.registry import by_name
    from trtsmith.importers.opdef import Expansion
    op = by_name()['WindowPool']
    body = op.expand(Expansion({'window': 4, 'mean': 0}, frozenset(['features', 'weights']), 'float32', 20))
    print('int64 {4}' in body)
    def again(window, mean):
        fields = {'window': window, 'mean': mean}
        return op.expand(Expansion(fields, frozenset(['features', 'weights']), 'float16', 20))
    print(again(4, 0) is body, again(2, 0) == body, again(4, 1) == body)
"""
OPERATOR = '''"""An operator of torch.library."""
import torch

@torch.library.custom_op("mycompany::half_fold", mutates_args=())
def half_fold(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    """The sum of both halves."""
    half = x.shape[1] // 2
    return (x[:, :half] + x[:, half:]) * scale
'''


def test_from_an_operator_of_torch_library(here: Path, cli: Cli) -> None:
    (here / "folding.py").write_text(OPERATOR)
    words = ["--from-torch", "folding:half_fold", "--example", "x=2x4"]
    ran = cli("op new HalfFold --domain mycompany", *words, "-o", "package")
    assert ran.code == 0 and "no kernel yet" in ran.err, ran
    definition = (here / "package" / "half_fold" / "definition.py").read_text()
    assert "The sum of both halves." in definition
    assert "expansion_opset=15," in definition  # the oldest in which the body, of a newer one, gives the same
    assert 'made = python_function(half_fold)(x=tensors["x"], scale=fields["scale"])' in definition
    tests = own_tests()
    assert tests.code == 0, tests.out


FAKE = """

@half_fold.register_fake
def _(x, scale=2.0):
    return x.new_empty((x.shape[0], x.shape[1] // 2))
"""

MODULE = f"""{FAKE}
@torch.library.custom_op("mycompany::relu", mutates_args=())
def relu(
    x: torch.Tensor, out: torch.Tensor | None, shift: torch.Tensor, slopes: list[float], flip: bool = False
) -> torch.Tensor:
    return torch.where(x < 0, x * slopes[0], x * slopes[1]) * (-1 if flip else 1) + shift

@relu.register_fake
def _(x, out, shift, slopes, flip=False):
    return torch.empty_like(x)

class Net(torch.nn.Module):
    def forward(self, x):
        half = half_fold(x, 0.5)
        return relu(half, None, half, [0.25, 1.0], True)

def net():
    return Net(), (torch.rand(3, 8),)
"""


def test_a_function_that_calls_an_operator_without_a_fake_implementation(here: Path, cli: Cli) -> None:
    (here / "folding.py").write_text(OPERATOR + "\ndef fold(x: torch.Tensor):\n    return half_fold(x) + 1\n")
    ran = cli("op new Fold --domain mycompany --from-torch folding.py:fold --example x=2x4")
    refused(
        ran,
        2,
        f"the operator is defined in {here / 'folding.py'}, line 4\n",
        '    @torch.library.register_fake("mycompany::half_fold")\n'
        "    def _(x, scale=2.0): return torch.empty_like(x)\n",
    )


def test_a_copy_that_differs_from_the_module_is_named(here: Path, cli: Cli) -> None:
    net = "class Net(torch.nn.Module):\n    def forward(self, x):\n        return half_fold(x, 0.5)\n"
    net += "def net():\n    return Net(), (torch.rand(3, 8),)\n"
    (here / "folding.py").write_text(OPERATOR + FAKE + net)
    words = ["--from-torch", "folding.py:half_fold", "--example", "x=3x8", "--example", "scale=0.5"]
    assert cli("op new HalfFold --domain mycompany", *words, "-o", "package").code == 0
    asked = "--ops ./package --target sm86"
    words = ["--reference", "HalfFold=folding.py:half_fold"]
    ran = cli(f"convert package/example.onnx -o example.plan {asked}", *words)
    assert ran.code == 0 and "the plugin of" not in ran.out, ran  # it has none
    assert "operator HalfFold, an alias of" in cli("check package/example.onnx --ops ./package -v").out
    copy = here / "package" / "half_fold" / "function.py"
    copy.write_text(copy.read_text().replace("+ x[:, half:]", "- x[:, half:]"))
    ran = cli(f"convert folding.py:net -o net.plan {asked}")
    assert ran.code == 3, ran
    assert (
        "check that package/half_fold/function.py computes mycompany::HalfFold as your framework does"
        in ran.out
    ), ran


def test_the_commands_that_a_refused_module_names_bring_its_operators(here: Path, cli: Cli) -> None:
    """The second operator's own name is one of ONNX, so that its package has another."""
    (here / "nets").mkdir()
    (here / "nets" / "net.py").write_text(OPERATOR + MODULE)
    ran = cli("check nets/net.py:net")
    commands = re.findall(r"fix:      trtsmith (.*); then (--ops \S+) brings the package", ran.err)
    half_fold, relu = (command for command, _ in commands)
    assert "op new HalfFold " in half_fold and half_fold.endswith(" --example x=3x8 --example scale=0.5")
    assert "op new ReluPlugin " in relu and relu.endswith(
        " --example x=3x4 --example shift=3x4 --example slopes=0.25,1.0 --example flip=True"
    )
    assert [cli(command).code for command, _ in commands] == [0, 0]
    packages = [word for _, ops in commands for word in ops.split()]
    ran = cli("check nets/net.py:net", *packages)
    assert ran.code == 0 and "mycompany::HalfFold" in ran.out and "mycompany::relu" in ran.out, ran
    assert cli("check relu_plugin/example.onnx", *packages).code == 0
    given = onnx.load("relu_plugin/example.onnx")
    given.graph.node[0].input[1] = "x"
    onnx.save(given, "given.onnx")
    refused(cli("check given.onnx", *packages), 1, "input 'out' is connected", "--example out=SHAPE")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("VoxelPool", "no domain is given"),
        ("voxel --domain m", "is not a name for an operator"),
        ("VoxelPool --domain m --node n", "--node has no effect here"),
        ("VoxelPool --domain m --example x=2", "--example has no effect"),
        ("VoxelPool --from-model model.onnx", "the node is not named"),
        ("VoxelPool --domain m --from-model model.onnx --node y", "the node's domain is 'acme'"),
        ("VoxelPool --from-model model.onnx --node gone", "gate (GatedHalf)"),
        ("VoxelPool --from-model model.onnx --node h", "trtsmith knows Relu"),
        ("VoxelPool --from-model pools.py --node h", "pools.py"),
        ("VoxelPool --domain m --from-torch pools:gone", "no function 'gone'"),
        ("VoxelPool --domain m --from-torch gone:f", "no module 'gone'"),
        ("VoxelPool --domain m --from-torch pools", "names no function"),
        ("VoxelPool --domain m --from-torch pools:window_pool", "--example features=2x3x4"),
        ("VoxelPool --domain m --from-torch pools:number --example x", "is not an example"),
        ("VoxelPool --domain m --from-torch pools:counted --example x=3x4", "depends on values"),
        (
            "VoxelPool --domain m --from-torch pools:broken --example x=3",
            'pools.py, line 16: raise ValueError("not',
        ),
        ("VoxelPool --domain m --from-torch pools:number --example x=3", "returns int"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(here: Path, cli: Cli, arguments: str, words: str) -> None:
    before = set(snapshot(here))
    refused(cli(f"op new {arguments}"), 2, words)
    assert {name for name in set(snapshot(here)) - before if "__pycache__" not in name} == set()


def test_a_file_that_needs_what_lies_beside_it(here: Path, cli: Cli) -> None:
    (here / "helpers.py").write_text("")
    (here / "user.py").write_text("import torch\nimport helpers\ndef f(x: torch.Tensor):\n    return x\n")
    sys.path.insert(0, str(here))
    try:
        ran = cli("op new VoxelPool --domain m --from-torch user:f --example x=3")
    finally:
        sys.path.remove(str(here))
    refused(ran, 2, "imports helpers from the same folder", "line 2")


def test_a_node_without_a_name_is_called_by_its_output(here: Path, cli: Cli) -> None:
    """In the message on it, and in the command that writes its package."""
    written(here / "two.onnx", "(float[1,8] x) => (float[1,8] y) { a = acme.Gate (x) y = acme.Gate (a) }")
    ran = cli("check two.onnx")
    assert "where:    the node of output 'a' (acme::Gate)" in ran.err and "--node a`" in ran.err
    refused(
        cli("op new Gate --from-model two.onnx --node Gate"), 2, "a (Gate), y (Gate)", "fix:      --node a\n"
    )
    assert cli("op new Gate --from-model two.onnx --node a").code == 0
