"""Tasks of a zoo's file: options, files, timing; and all problems at once, with their lines."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import numpy as np
import pytest

from tests.converter.batch.zoo.zoos import COMMANDS, lines_of, problems_of, tasks_of, write_model
from tests.converter.models import written
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.batch.task import BatchTask, Needs
from trtsmith.converter.batch.zoo.read_zoo import read_zoo
from trtsmith.converter.batch.zoo.zoo_file import read_zoo_file

A = '[[model]]\npath = "a.onnx"\n'
B = '[[model]]\npath = "b.onnx"\n'


def test_a_model_by_itself_is_a_task(folder: Path) -> None:
    (task,) = tasks_of(folder, f"\n{A}")
    assert task == BatchTask(
        "a", "a", str(folder / "a.onnx"), (), (folder / "a.onnx",), {}, None, None, Needs(), True, 2
    )
    assert pickle.loads(pickle.dumps(task)) == task


def test_words_have_the_parsers_order_whatever_the_files(folder: Path) -> None:
    one = tasks_of(folder, f'{A}target = "sm86"\nprecision = "fp16"\nkeep-fp32 = "Add"\n')
    other = tasks_of(folder, f'[defaults]\nkeep-fp32 = "Add"\n{A}precision = "fp16"\ntarget = "sm86"\n')
    assert one[0].words == other[0].words == ("--precision", "fp16", "--keep-fp32", "Add", "--target", "sm86")


def test_the_file_may_be_named_from_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "zoo.toml").write_bytes(b"\xef\xbb\xbf" + A.replace("\n", "\r\n").encode())
    monkeypatch.chdir(folder / "nets")
    (task,) = read_zoo(Path("../zoo.toml"), COMMANDS)
    assert task.source == str(folder / "a.onnx")


def test_files_are_all_that_a_task_reads(folder: Path) -> None:
    write_model(folder / "w" / "w.onnx", 1, 3, weights="w.data")
    names = "mine.py lib/mine.so pkg/__init__.py pkg/sub/__init__.py pkg/sub/more.py pkg/__pycache__/x.pyc libyours.so"
    for name in names.split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    np.savez(folder / "k.npz", k=np.ones(1))
    text = '[[model]]\npath = "w/w.onnx"\nprecision = "int8"\ncalibration = "x.npz"\nexpected = "x.npz"\n'
    text += 'inputs = "x.npz"\n'
    text += 'plugins = "libyours.so"\nops = ["mine.py", "pkg/sub/more.py"]\nbench = { inputs = "k.npz" }\n'
    (task,) = tasks_of(folder, text)
    assert sorted(str(path.relative_to(folder)) for path in task.files) == [
        "k.npz", "lib/mine.so", "libyours.so", "mine.py", "pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/more.py",
        "w/w.data", "w/w.onnx", "x.npz",
    ]  # fmt: skip
    assert task.files[0] == folder / "w/w.onnx"
    assert len(set(task.files)) == len(task.files)
    assert task.hashed


@pytest.mark.parametrize("option", ['ops = "some_module"', 'reference = "m:f"'])
def test_what_imports_a_module_by_its_name_is_never_cached(folder: Path, option: str) -> None:
    (task,) = tasks_of(folder, f"{A}{option}\n")
    assert not task.hashed


def test_a_frozen_array_is_a_file_of_the_task(folder: Path) -> None:
    np.save(folder / "x.npy", np.ones((1, 3), np.float32))
    (task,) = tasks_of(folder, f'{B}freeze = {{ x = "@x.npy" }}\n')
    assert task.words == ("--freeze", f"x=@{folder}/x.npy")
    assert task.files == (folder / "b.onnx", folder / "x.npy")


def test_timing(folder: Path) -> None:
    assert tasks_of(folder, A)[0].bench is None
    assert tasks_of(folder, f"bench = true\n{A}")[0].bench == ()
    assert tasks_of(folder, f"bench = true\n{A}bench = false\n")[0].bench is None
    text = f'[bench]\nat = ["min", "max"]\nstreams = 2\n{A}bench = {{ streams = 3, no-transfers = true }}\n'
    assert tasks_of(folder, text)[0].bench == ("--at", "min,max", "--streams", "3", "--no-transfers")


def test_tuning(folder: Path) -> None:
    assert tasks_of(folder, A)[0].tune is None
    assert tasks_of(folder, f"{A}tune = true\n")[0].tune == ()
    assert tasks_of(folder, f"tune = true\n{A}tune = false\n")[0].tune is None
    text = f'[tune]\nminutes = 2\n{A}verify = "engine"\nworkspace = 64\ntune = {{ max-error = {{ y = 0.01 }} }}\n'
    (task,) = tasks_of(folder, text)
    assert task.tune == ("--workspace", "64", "--max-error", "y:0.01", "--minutes", "2")
    assert task.words == ("--workspace", "64", "--verify", "engine")
    assert task.command == ("trtsmith", "tune", task.source, "-o", "model.plan", *task.tune)
    samples = tasks_of(folder, f'{A}tune = {{ samples = "x.npz" }}\n')[0]
    assert samples.tune == ("--samples", f"{folder}/x.npz") and folder / "x.npz" in samples.files


def test_models_that_cannot_be_read_are_for_the_conversion_to_refuse(folder: Path) -> None:
    write_model(folder / "w/gone.onnx", 1, weights="gone.data")
    (folder / "w/gone.data").unlink()
    write_model(folder / "w/outside.onnx", 1, weights="../secret.data")
    (folder / "w/broken.onnx").write_bytes(b"\x08\x09:\xff\x01x")
    (folder / "w/p.pt2").write_bytes(b"no archive")
    tasks = tasks_of(folder, '[[model]]\npath = "w/*"\nshapes.x = "1"\n')
    names = ["broken.onnx", "gone.onnx", "outside.onnx", "p.pt2"]
    assert [task.files for task in tasks] == [(folder / "w" / name,) for name in names]


def test_a_model_that_is_not_selected_is_not_opened(folder: Path) -> None:
    """b.onnx has a dynamic input without shapes, which only a look into it finds."""
    zoo = folder / "zoo.toml"
    zoo.write_text(f'[matrix]\nprecision = ["fp16", "bf16"]\n{A}{B}')
    names = ["a/fp16", "a/bf16", "b/fp16", "b/bf16"]
    assert [task.name for task in read_zoo(zoo, COMMANDS, ["a"])] == names
    for only in ("b", "b/fp16", "*"):
        with pytest.raises(UsageError, match="'x' is dynamic and has no shapes"):
            read_zoo(zoo, COMMANDS, [only])


@pytest.mark.parametrize(
    ("options", "said", "line"),
    [
        ("", "input 'x' is dynamic and has no shapes", 1),
        ('shapes = { x = "1x3", y = "1x3" }', "the model has no input 'y'", 3),
        ('shapes = { x = "1x4" }', "dimension 1 is 4, but the model fixes it at 3", 3),
        ('shapes = { x = "1x3x4" }', "rank 3", 3),
        ('shapes = { x = "4x3:2x3:1x3" }', "contradict each other", 3),
        ('shapes = { x = "1x3:2x3" }', "is not a shape", 3),
        ('shapes = ["x=1x3", "x=2x3"]', "given twice", 3),
        ('maxShapes = "z:1x3"\nshapes.x = "1x3"', "the model has no input 'z'", 4),
        ('shapes.x = "1x3"\nfreeze = { q = 3 }', "the model has no input 'q'", 4),
        ('freeze = { x = "[1" }', "is not a value", 3),
        ('freeze = { x = "@nowhere.npy" }', "freeze names no file", 3),
        ('shapes.x = "1x3"\nvalues = { k = 3 }', "the model has no input 'k'", 4),
        ('shapes.x = "1x3"\nrtol = { z = 1e-3 }', "the model has no output 'z'", 4),
        ('shapes.x = "1x3"\nrtol = -1', "is not a tolerance", 4),
        ('shapes.x = "1x3"\nkeep-fp32 = "Add"', "--keep-fp32 has no effect without --precision", 4),
        ('shapes.x = "1x3"\ninputs = "nowhere.npz"', "inputs names no file", 4),
        ('shapes.x = "1x3"\ninputs = "a.onnx"', "inputs names no .npz file", 4),
        ('shapes.x = "1x3"\nexpected = "a.onnx"', "expected names no .npz file", 4),
        ('shapes.x = "1x3"\ninputs = "z.npz"', "no array for input 'x'", 4),
        ('shapes.x = "1x3"\ninputs = "nets"', "inputs names a folder", 4),
        ('shapes.x = "1x3"\nops = "nowhere.py"', "ops names no file", 4),
        ('shapes.x = "1x3"\nexpected = "z.npz"', "outputs are given without their inputs", 4),
        ('shapes.x = "1x3"\nexpected = "x.npz"\nreference = "m:f"', "given twice", 5),
        ('shapes.x = "1x3"\nreference = "m"', "names no function", 4),
        ('shapes.x = "1x3"\nverify = "graph"\nno-verify = true', "not allowed with argument", 1),
        ('shapes.x = "1x3"\nmend-with = "magic"', '"magic" is not a value of mend-with', 4),
        ('shapes.x = "1x3"\noptimization-level = 9', "9 is not a value of optimization-level", 4),
        ('shapes.x = "1x3"\nbench = { at = "middle" }', "there is no point 'middle'", 4),
        ('shapes.x = "1x3"\nbench = { shapes = "x" }', "is not a shape", 4),
        ('shapes.x = "1x3"\nbench = { inputs = "x.npz", at = "max" }', "already sets the shapes", 4),
        ('shapes.x = "1x3"\nbench = { against = "onnxruntime" }', "a zoo cannot give against", 4),
        ('shapes.x = "1x3"\nbench = "yes"', 'bench is "yes"', 4),
        ('shapes.x = "1x3"\ntune = 3', "tune is 3", 4),
        ('shapes.x = "1x3"\ntune = { minutes = 0 }', "'0' is not a positive number of minutes", 4),
        ('shapes.x = "1x3"\ntune = { precisions = ["fp64"] }', "fp64", 4),
        ('shapes.x = "1x3"\ntune = { precisions = "int8" }', "there are no samples", 4),
        ('shapes.x = "1x3"\ntune = { samples = "nowhere.npz" }', "samples names no file", 4),
        ('shapes.x = "1x3"\ntune = { max-error = { z = 0.1 } }', "the model has no output 'z'", 4),
        ('shapes.x = "1x3"\ntune = { workspace = 3 }', "gets it from the model's own options", 4),
        ('shapes.x = "1x3"\ntune = { json = "x" }', "a zoo cannot give json", 4),
        ('shapes.x = "1x3"\nprecision = "fp16"\ntune = true', "does not take precision, and", 4),
        ('shapes.x = "1x3"\nrefit = true\ntune = true', "does not take refit, and", 4),
        ('shapes.x = "1x3"\noutput = "x"', "a zoo cannot give output", 4),
        ('shapes.x = "1x3"\ntiming-cache = "x"', "a zoo cannot give timing-cache: tasks run in any order", 4),
        ('shapes.x = "1x3"\nkeep_fp32 = "x"', "unknown key 'keep_fp32'", 4),
        ('shapes.x = "1x3"\nmend = true\nno-mend = true', "no-mend and mend are one option", 5),
    ],
)
def test_options_that_do_not_fit(folder: Path, options: str, said: str, line: int) -> None:
    np.savez(folder / "z.npz", z=np.ones(1))
    (problem,) = problems_of(folder, f"{B}{options}\n")
    assert said in problem.what
    assert lines_of((problem,)) == [line]


def test_a_suggestion_is_one_that_can_be_pasted(folder: Path) -> None:
    (problem,) = problems_of(folder, B)
    assert problem.fix == "shapes = ['x=1x3:1x3:8x3']"
    (task,) = tasks_of(folder, f"{B}{problem.fix}\n")
    assert task.words == ("--shapes", "x=1x3:1x3:8x3")


def test_a_name_that_cannot_be_is_the_only_problem_with_it(folder: Path) -> None:
    named = "".join(f"{A}name = {name}\n" for name in ('"../x"', '""', "5"))
    problems = problems_of(folder, f"{A}{named}{A}")
    assert lines_of(problems) == [5, 8, 11, 12]
    assert ["name" in p.what or "is empty" in p.what for p in problems[:3]] == [True] * 3
    assert "a.onnx is a model of the entry in line 1, too" in problems[3].what


@pytest.mark.parametrize(
    ("wrong", "fix"),
    [
        ('precison = "x"', "did you mean 'precision'?"),
        ('Target = "x"', "did you mean 'target'?"),
        ('keep_fp32 = "x"', "did you mean 'keep-fp32'?"),
        ('keepFp32 = "x"', "did you mean 'keep-fp32'?"),
        ("fp16 = true", 'write precision = "fp16"'),
        ('precision = "pf16"', "did you mean 'fp16'?"),
        ('flavour = "tensorrt-rtx"', "did you mean 'tensorrt_rtx'?"),
        ('frobnicate = "x"', "correct it, or remove it"),
        ('flavour = "gpu"', "correct it, or remove it"),
    ],
)
def test_what_was_meant_is_told_where_it_is_near(folder: Path, wrong: str, fix: str) -> None:
    (problem,) = problems_of(folder, f"{A}{wrong}\n")
    assert problem.fix == fix


def test_a_model_that_tensorrt_cannot_have_is_for_the_conversion_to_refuse(folder: Path) -> None:
    written(folder / "t.onnx", "(string[1] t) => (string[1] u) { u = Identity (t) }")
    assert len(tasks_of(folder, '[[model]]\npath = "t.onnx"\nshapes.q = "1"\n')) == 1


def test_what_inputs_may_freeze_needs_no_shapes(folder: Path) -> None:
    text = "(float[1,2] x, int64[n] k) => (float[] y) { y = CenterCropPad (x, k) }"
    written(folder / "k.onnx", text, opset=18)
    np.savez(folder / "k.npz", x=np.ones((1, 2), np.float32), k=np.ones(2, np.int64))
    (problem,) = problems_of(folder, '[[model]]\npath = "k.onnx"\n')
    assert "'k' is dynamic and has no shapes" in problem.what
    assert len(tasks_of(folder, '[[model]]\npath = "k.onnx"\ninputs = "k.npz"\n')) == 1


def test_an_example_of_an_input_is_no_shape_of_it(folder: Path) -> None:
    text = f'{B}inputs = "x.npz"\nmatrix.precision = ["fp16", "bf16"]\n'
    (problem,) = problems_of(folder, text)  # once, and not for each variant
    assert problem.what == "input 'x' is dynamic and has no shapes"
    assert lines_of((problem,)) == [1]


ALL_WRONG = """\
[defaults]
precison = "fp16"
verify = "grph"

[matrix]
target = ["sm86", "sm86"]
exclude = [{ target = "sm87" }]

[needs]
memory = "lots"

[[model]]
path = "nowhere/*.onnx"
workspace = -1

[[model]]
path = "b.onnx"
name = "<b>"
shapes = { x = "1x4", y = "1" }
bench = { at = "?" }

[[model]]
nmae = "x"

[more]
"""


def test_all_problems_at_once_in_the_order_of_the_file(folder: Path) -> None:
    problems = problems_of(folder, ALL_WRONG)
    assert lines_of(problems) == [2, 3, 6, 7, 10, 13, 14, 18, 19, 19, 20, 22, 23, 25]
    assert all(problem.where.startswith(f"{folder / 'zoo.toml'}, line ") for problem in problems)


def test_one_problem_of_many_variants_is_told_once(folder: Path) -> None:
    text = f'[matrix]\ntarget = ["sm80", "sm86", "sm89"]\nworkspace = [1, 2, 3]\n{B}shapes.x = "1x4"\n'
    (problem,) = problems_of(folder, text)
    assert lines_of((problem,)) == [6]


def test_the_same_problem_of_several_models_names_each(folder: Path) -> None:
    problems = problems_of(folder, '[[model]]\npath = "nets/**/*.onnx"\nshapes.q = "1"\n')
    assert len(problems) == 2
    assert ["c.onnx" in problem.where for problem in problems] == [True, False]


@pytest.mark.parametrize(
    ("data", "said", "line"),
    [
        (b"[[model]]\npath = a.onnx\n", "Invalid", 2),
        (b"a = 1\na = 2\n", "Cannot overwrite", 2),
        (b'\n\na = "x', "", 3),
        (b'a = "\xff"\n', "not UTF-8", 1),
        (b"a = 1\nb = \xe4\n", "not UTF-8", 2),
        (b"a = " + b"9" * 5000, "", 1),
        (b"a = " + b"[" * 5000, "nested too deeply", 1),
        (b"", "the zoo has no model", 1),
        (b"# nothing\n", "the zoo has no model", 1),
        (b"model = 3\n", "model is 3", 1),
        (b"[model]\npath = 'a.onnx'\n", "model is", 1),
        (b"model = [1]\n", "model is [1]", 1),
        (b"[[models]]\npath = 'a.onnx'\n", "unknown key 'models'", 1),
        (b"[[model]]\n", "the model has no path", 1),
        (b"defaults = 3\n[[model]]\npath = 'a.onnx'\n", "defaults is 3", 1),
        (b"[defaults]\npath = 'a.onnx'\n[[model]]\npath = 'a.onnx'\n", "path is not for all models", 2),
    ],
)
def test_files_that_are_no_zoo(folder: Path, data: bytes, said: str, line: int) -> None:
    (folder / "zoo.toml").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_zoo(folder / "zoo.toml", COMMANDS)
    problem = caught.value.problems[0]
    assert said in problem.what
    assert lines_of((problem,)) == [line]


@pytest.mark.parametrize("name", [".", "missing.toml", "/dev/null", "a\0b", "x" * 5000])
def test_what_is_no_file(folder: Path, name: str) -> None:
    with pytest.raises(UsageError):
        read_zoo(folder / name, COMMANDS)


def test_keys_with_newlines_cannot_pass_for_lines_of_ours(folder: Path) -> None:
    (problem,) = problems_of(folder, f'{A}"a\\nerror: b" = 1\n')
    assert "\n" not in problem.what + problem.where


def test_no_module_and_no_library_is_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "evil.py").write_text("raise SystemExit(9)\n")
    (folder / "libevil.so").write_bytes(b"\x7fELF")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    text = (
        f'{A}ops = "evil.py"\nreference = "evil:f"\nplugins = "libevil.so"\n[[model]]\npath = "evil:make"\n'
    )
    assert len(tasks_of(folder, text)) == 2


def test_a_hundred_models_are_looked_at_in_a_second_or_two(folder: Path) -> None:
    for number in range(100):
        write_model(folder / "many" / f"m{number}.onnx", "batch", 3)
    text = '[defaults]\nshapes.x = "1x3"\n[matrix]\ntarget = ["sm80", "sm86"]\nprecision = ["fp16", "bf16"]\n'
    began = time.process_time()
    assert len(tasks_of(folder, f'{text}[[model]]\npath = "many/*.onnx"\n')) == 400
    assert time.process_time() - began < 5


def test_yaml_is_told_from_a_mistake_in_toml(tmp_path: Path) -> None:
    (tmp_path / "z.yaml").write_text("- path: a.onnx\n")
    with pytest.raises(UsageError, match="the file is YAML by its name, and a zoo is TOML"):
        read_zoo_file(tmp_path / "z.yaml")
