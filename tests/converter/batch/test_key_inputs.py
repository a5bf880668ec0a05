"""The cache key changes with every input of a conversion, and with nothing else.

Zoos are read and machines are looked at as a batch does it; test_keys.py has the parts by themselves.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from tests.converter.batch.zoo.zoos import COMMANDS, problems_of, tasks_of, write_model
from trtsmith.converter.batch import machine
from trtsmith.converter.batch.file_hashes import FileHashes
from trtsmith.converter.batch.keys import Keys
from trtsmith.converter.batch.machine import this_machine
from trtsmith.converter.engine.builder.flavour import InstalledFlavour
from trtsmith.converter.engine.builder.gpu import Gpu

MODEL = '[[model]]\npath = "net.onnx"\n'
INT8 = 'precision = "int8"\n'

OPTIONS = {
    "export-timeout": ("5", "6"),
    "shapes": ('{ x = "1x3" }', '{ x = "1x3:2x3:4x3" }'),
    "minShapes": ('"x:1x3"', '"x:2x3"', 'maxShapes = "x:4x3"\noptShapes = "x:3x3"\n'),
    "optShapes": ('"x:2x3"', '"x:3x3"', 'minShapes = "x:1x3"\nmaxShapes = "x:4x3"\n'),
    "maxShapes": ('"x:3x3"', '"x:4x3"', 'minShapes = "x:1x3"\noptShapes = "x:2x3"\n'),
    "values": ("{ k = 1 }", "{ k = 2 }"),
    "freeze": ("{ k = 1 }", "{ k = 2 }"),
    "inputs": ('"in.npz"', '"other.npz"'),
    "precision": ('"fp16"', '"bf16"'),
    "keep-fp32": ('"Add"', '"Mul"', 'precision = "fp16"\n'),
    "keep-only": ("false", "true", 'precision = "fp16"\n'),
    "recipe": ('"one.recipe.json"', '"other.recipe.json"'),
    "as-is": ("false", "true"),
    "accumulate": ('"fp16"', '"fp32"', 'precision = "fp16"\n'),
    "float-lstm": ("false", "true"),
    "io-precision": ("false", "true", 'precision = "fp16"\n'),
    "calibration": ('"in.npz"', '"other.npz"', INT8),
    "target": ('"sm86"', '"sm89"'),
    "flavour": ('"tensorrt"', '"tensorrt_rtx"'),
    "prefer-stock": ("false", "true"),
    "plugins": ('"libmine.so"', '"libyours.so"'),
    "embed-plugins": ("false", "true"),
    "workspace": ("64", "128"),
    "optimization-level": ("2", "3"),
    "timeout": ("100", "200"),
    "version-compatible": ("false", "true"),
    "hardware-compatibility-level": ('"none"', '"ampere+"'),
    "strip-plan": ("false", "true"),
    "refit": ("false", "true"),
    "weight-streaming": ("false", "true"),
    "tactic-sources": ('"+CUBLAS"', '"-CUBLAS"'),
    "memory-pool-limit": ('"workspace:1GiB"', '"workspace:2GiB"'),
    "memPoolSize": ('"workspace:1024"', '"workspace:2048"'),
    "use-dla-core": ("0", "1"),
    "sparsity": ('"enable"', '"disable"'),
    "strongly-typed": ("false", "true"),
    "mend": ("true", "false"),
    "mend-with": ("[]", '"expanded-plugin"'),
    "reduce": ("true", "false"),
    "reduce-timeout": ("5", "6"),
    "expected": ('"in.npz"', '"other.npz"'),
    "rtol": ("0.1", "0.2"),
    "atol": ("0.1", "0.2"),
    "not-compared": ("[]", '"y"'),
    "compare": ('{ y = "values" }', '{ y = "ranking" }'),
    "max-cost": ("0.1", "0.2", INT8),
    "verify": ('"graph"', '"engine"'),
    "no-verify": ("false", "true"),
    "ops": ('"pkg"', '"ops.py"'),
    "no-plugins-from-packages": ("false", "true"),
}
"""Two values of each option of `convert`, and what else it needs. Values of files are other files."""

OF_BENCH = {
    "shapes": ('{ x = "1x3" }', '{ x = "2x3" }'),
    "at": ('"min"', '"max"'),
    "inputs": ('"in.npz"', '"other.npz"'),
    "warmup-ms": ("1", "2"),
    "duration-s": ("1", "2"),
    "iterations": ("1", "2"),
    "streams": ("1", "2"),
    "no-transfers": ("false", "true"),
    "cuda-graph": ('"on"', '"off"'),
    "layers": ("1", "2"),
    "plugins": ('"libmine.so"', '"libyours.so"'),
    "flavour": ('"tensorrt"', '"tensorrt_rtx"'),
    "timeout": ("1", "2"),
    "ops": ('"pkg"', '"ops.py"'),
    "no-plugins-from-packages": ("false", "true"),
}

OF_TUNE = {
    "max-error": ("0.1", "0.2"),
    "minutes": ("1", "2"),
    "samples": ('"in.npz"', '"other.npz"'),
    "precisions": ('"fp16"', '["fp16", "bf16"]'),
}

NEVER_KEPT = {"reference": '"m:f"', "ops": '"some.module"'}
"""They import modules by name: there is no key."""

REFUSED = {"timing-cache": '"timings"', "save-onnx": '"net.onnx"', "output": '"x"'}
"""A zoo cannot give them: what a build reads there, an earlier task may have written."""


@dataclass
class Machine:
    """What a key is made of: a folder with a zoo and what it names, and the machine, as it is found now."""

    folder: Path
    patch: pytest.MonkeyPatch
    zoo: str = ""
    gpu: Gpu | None = None

    def key(self, zoo: str | None = None) -> str:
        (task,) = tasks_of(self.folder, self.zoo if zoo is None else zoo)
        facts = this_machine()
        return Keys(lambda _: facts, FileHashes()).of(task)

    def write(self, name: str, data: bytes | str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    def install(self, name: str, code: str, version: str = "1") -> None:
        """A distribution of one module."""
        self.write(f"site/{name}.py", code)
        info = f"site/{name}-1.dist-info"
        self.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        self.write(f"{info}/RECORD", f"{name}.py,sha256={abs(hash(code))},1\n../bin/{os.getpid()},,\n")

    def flavours(self, **versions: str) -> None:
        found = [InstalledFlavour(name, said, name, self.folder) for name, said in versions.items()]
        self.patch.setattr(machine, "installed_flavours", lambda: tuple(found))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path, monkeypatch)
    for name in ("TRTSMITH_OPS", "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(machine, "find_gpu", lambda: found.gpu)
    monkeypatch.setattr(machine, "rules_digest", lambda **_: "rules")  # test_machine.py has these
    site, real = str(tmp_path / "site"), metadata.distributions
    monkeypatch.setattr(metadata, "distributions", lambda: real(path=[site]))
    found.flavours(tensorrt="10.16", tensorrt_rtx="1.7.1")
    write_model(tmp_path / "net.onnx", "batch", 3, weights="net.data")
    for name in ("in.npz", "other.npz", "more.npz"):
        np.savez(tmp_path / name, x=np.full((1, 3), len(name), np.float32))
    np.save(tmp_path / "grid.npy", np.ones((1, 3), np.float32))
    for name in (
        "one.recipe.json",
        "other.recipe.json",
        "libmine.so",
        "libyours.so",
        "pkg/__init__.py",
        "pkg/lib/liba_plugins.so",
        "ops.py",
    ):
        found.write(name, name)
    found.install("helper", "K = 2")
    found.install("tensorrt_rtx_libs", "1")
    found.write("site/acme-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found.zoo = f'{MODEL}shapes.x = "1x3"\n'
    return found


def values_of(given: tuple[str, ...]) -> tuple[str, str, str]:
    one, other, *needed = given
    return one, other, "".join(needed)


def zoo_of(name: str, value: str, needed: str) -> str:
    """Options that the model cannot have are not what is asked here: the model has no look at them."""
    shapes = "" if name.endswith(("shapes", "Shapes")) else 'shapes.x = "1x3"\n'
    return f"{MODEL}{name} = {value}\n{needed}{shapes}"


def test_the_tables_have_every_option() -> None:
    def of(command: str) -> set[str]:
        actions = getattr(COMMANDS, command).options()
        firsts = (next(flag for flag in one.option_strings if flag[:2] == "--") for one in actions.values())
        return {flag[2:] for flag in firsts}

    assert of("convert") - {*OPTIONS, *NEVER_KEPT} == set()
    assert of("bench") - {*OF_BENCH} == set()
    assert of("tune") == {*OF_TUNE}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_convert_counts(name: str, here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, needed = values_of(OPTIONS[name])
    monkeypatch.setattr("trtsmith.converter.batch.zoo.read_zoo.ModelLook.check", lambda *_: None)
    keys = [here.key(zoo_of(name, value, needed)) for value in (one, other)]
    assert len({*keys, ""}) == 3


@pytest.mark.parametrize("name", OF_BENCH)
def test_every_option_of_bench_counts(name: str, here: Machine) -> None:
    here.gpu = Gpu("NVIDIA L4", (8, 9))
    one, other, _ = values_of(OF_BENCH[name])
    keys = [here.key(f"{here.zoo}[model.bench]\n{name} = {value}\n") for value in (one, other)]
    assert len({*keys, here.key(), ""}) == 4


@pytest.mark.parametrize("name", OF_TUNE)
def test_every_option_of_tune_counts(name: str, here: Machine) -> None:
    here.gpu = Gpu("NVIDIA L4", (8, 9))
    one, other, _ = values_of(OF_TUNE[name])
    keys = [here.key(f"{here.zoo}tune = {{ {name} = {value} }}\n") for value in (one, other)]
    assert len({*keys, here.key(), here.key(f"{here.zoo}tune = true\n"), ""}) == 5


@pytest.mark.parametrize("name", NEVER_KEPT)
def test_modules_by_name_have_no_key(name: str, here: Machine) -> None:
    assert here.key() and not here.key(f"{here.zoo}{name} = {NEVER_KEPT[name]}\n")


@pytest.mark.parametrize("name", REFUSED)
def test_what_other_tasks_write_is_no_input(name: str, here: Machine) -> None:
    (problem,) = problems_of(here.folder, f"{here.zoo}{name} = {REFUSED[name]}\n")
    assert f"a zoo cannot give {name}" in problem.what


Change = Callable[[Machine], None]
FILES = {
    "net.onnx": "",
    "net.data": "",
    "in.npz": 'inputs = "in.npz"\n',
    "other.npz": f'{INT8}calibration = ["in.npz", "other.npz"]\n',
    "more.npz": 'tune = { samples = "more.npz" }\n',
    "one.recipe.json": 'recipe = "one.recipe.json"\n',
    "grid.npy": 'freeze = { x = "@grid.npy" }\n',
    "libmine.so": 'plugins = "libmine.so"\n',
    "pkg/__init__.py": 'ops = "pkg"\n',
    "pkg/lib/liba_plugins.so": 'ops = "pkg/__init__.py"\n',
    "pkg/more.py": 'ops = "pkg"\n',
    "ops.py": 'ops = "ops.py"\n',
    "lib/libb_plugins.so": 'ops = "ops.py"\n',
}
"""Files, and the option that names each."""


@pytest.mark.parametrize("name", FILES)
def test_the_bytes_of_every_file_that_is_named_count(name: str, here: Machine) -> None:
    zoo = here.zoo + FILES[name]
    zoo = zoo.replace('shapes.x = "1x3"\n', "") if "freeze" in zoo else zoo
    before = here.key(zoo)
    path = here.folder / name
    if name == "net.onnx":
        write_model(path, "n", 3, weights="net.data")
    elif path.suffix == ".npz":
        np.savez(path, x=np.full((1, 3), 7, np.float32))
    elif name == "net.data":
        here.write(name, b"\0\0\0\1")
    else:
        here.write(name, path.read_bytes() + b" " if path.exists() else "new")
    assert len({before, here.key(zoo), ""}) == 3


def environment(name: str, value: str) -> Change:
    return lambda here: here.patch.setenv(name, value)


def _other_library(here: Machine) -> None:
    shutil.copytree(Path(machine.plugin_library()).parent, here.folder / "own")
    here.write("own/libtrtsmith_plugins.so", "other")
    here.patch.setenv("TRTSMITH_LIBRARY_DIR", str(here.folder / "own"))


def _library_path(here: Machine) -> None:
    here.write("more/libnvinfer.so.10", "1")
    here.patch.setenv("LD_LIBRARY_PATH", str(here.folder / "more"))


def _gpu(here: Machine) -> None:
    here.gpu = Gpu("NVIDIA L4", (8, 9))


def _operators(here: Machine) -> None:
    here.patch.setenv("TRTSMITH_OPS", str(here.folder / "pkg"))


def _entry_point(here: Machine) -> None:
    here.write("site/acme-1.dist-info/entry_points.txt", "[trtsmith.operators]\nacme = helper\n")


def _other_version(name: str) -> Change:
    real = machine._version

    def change(here: Machine) -> None:
        here.patch.setattr(machine, "_version", lambda names: "0.0" if names[0] == name else real(names))

    return change


def _as_rules(here: Machine) -> None:
    here.patch.setattr(machine, "rules_digest", lambda **_: "others")


OPS = 'ops = "pkg"\n'
MACHINE: dict[str, tuple[str, Change, str]] = {
    "TensorRT's version": ("", lambda here: here.flavours(tensorrt_rtx="1.8"), "key"),
    "that of another TensorRT": (
        "",
        lambda here: here.flavours(tensorrt="11.0", tensorrt_rtx="1.7.1"),
        "same",
    ),
    "TensorRT's libraries in a distribution of their own": (
        "",
        lambda here: here.install("tensorrt_rtx_libs", "2"),
        "key",
    ),
    "TensorRT without a version": ("", lambda here: here.flavours(tensorrt_rtx=""), "none"),
    "no TensorRT": ("", lambda here: here.flavours(), "none"),
    "libraries on LD_LIBRARY_PATH": ("", _library_path, "key"),
    "a library to preload": (
        "",
        lambda here: here.patch.setenv("LD_PRELOAD", f"{here.folder}/libmine.so"),
        "key",
    ),
    "TF32 for all": ("", environment("NVIDIA_TF32_OVERRIDE", "0"), "key"),
    "a variable of CUDA's": ("", environment("CUDA_MODULE_LOADING", "EAGER"), "key"),
    "a variable of cuBLAS's": ("", environment("CUBLAS_WORKSPACE_CONFIG", ":4096:8"), "key"),
    "a variable of TensorRT's": ("", environment("TRT_DEBUG", "1"), "key"),
    "a variable of onnxruntime's": ("", environment("ORT_X", "1"), "key"),
    "a variable of PyTorch's CPU kernels": ("", environment("ATEN_CPU_CAPABILITY", "default"), "key"),
    "any other variable": ("", environment("LANG", "C.UTF-8"), "same"),
    "the GPU that is visible": ("", environment("CUDA_VISIBLE_DEVICES", "0"), "same"),
    "a GPU": ('flavour = "tensorrt_rtx"\n', _gpu, "key"),
    "trtsmith's plugin library": ("", _other_library, "key"),
    "trtsmith's rules": ("", _as_rules, "key"),
    "operators of TRTSMITH_OPS": ("", _operators, "key"),
    "operators of an installed package": ("", _entry_point, "key"),
    "the same, left out": ("no-plugins-from-packages = true\n", _entry_point, "same"),
    **{
        f"the version of {name}": ("", _other_version(name), "key")
        for name in ("onnx", "onnxruntime", "numpy")
    },
    "the version of PyTorch": ("", _other_version("torch"), "same"),
    "the version of PyTorch, which calibrates": (
        f'{INT8}calibration = "in.npz"\n',
        _other_version("torch"),
        "key",
    ),
    "the quantiser": (f'{INT8}calibration = "in.npz"\n', _other_version("nvidia-modelopt"), "key"),
    "a module that operators may import": (OPS, lambda here: here.install("helper", "K = 5"), "key"),
    "the same without operators": ("", lambda here: here.install("helper", "K = 5"), "same"),
    "a cache of Python": (OPS, lambda here: here.write("pkg/__pycache__/x.cpython-310.pyc", "x"), "same"),
    "a history of versions": (OPS, lambda here: here.write("pkg/.git/HEAD", "x"), "same"),
    "a dotfile of a package": (OPS, lambda here: here.write("pkg/.k", "x"), "key"),
    "a file beside a model": ("", lambda here: here.write("notes.txt", "x"), "same"),
    "the time of a file": ("", lambda here: os.utime(here.folder / "net.onnx", (1, 1)), "same"),
    "a link to the model": (
        "",
        lambda here: (
            (here.folder / "net.onnx").rename(here.folder / "blob")
            and (here.folder / "net.onnx").symlink_to(here.folder / "blob")
        ),
        "same",
    ),
    "the working folder": ("", lambda here: here.patch.chdir(here.folder / "pkg"), "same"),
}
"""Options, a change, and whether there is another key then, the same one, or none."""


@pytest.mark.parametrize("name", MACHINE)
def test_each_input_of_a_conversion_changes_its_key(name: str, here: Machine) -> None:
    options, change, expected = MACHINE[name]
    zoo = here.zoo + options
    before = here.key(zoo)
    assert before and here.key(zoo) == before
    change(here)
    after = here.key(zoo)
    assert (after == before, after == "") == {
        "key": (False, False),
        "same": (True, False),
        "none": (False, True),
    }[expected]


def test_where_python_looks_for_modules_is_no_part_of_a_key(here: Machine) -> None:
    """What is imported from there is held against the key when the conversion has ended: see test_operator_code.py."""
    before = here.key()
    here.patch.setattr(sys, "path", [*sys.path, str(here.folder)])
    assert here.key() == before
