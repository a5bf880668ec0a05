"""Matrices of a zoo: axes, exclusions, needs, and the precedence of settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.batch.zoo.zoos import lines_of, problems_of, tasks_of
from trtsmith.converter.batch.task import Needs

A = '[[model]]\npath = "a.onnx"\n'


def variants(folder: Path, text: str) -> dict[str, str]:
    """The words of each task by its name."""
    return {task.name: " ".join(task.words) for task in tasks_of(folder, text)}


def test_every_combination_is_a_task(folder: Path) -> None:
    text = f'[matrix]\ntarget = ["sm86", ["sm80", "sm89"]]\nprecision = ["default", "fp16"]\n{A}'
    tasks = tasks_of(folder, text)
    assert {task.name: " ".join(task.words) for task in tasks} == {
        "a/sm86-default": "--target sm86",
        "a/sm86-fp16": "--precision fp16 --target sm86",
        "a/sm80+sm89-default": "--target sm80,sm89",
        "a/sm80+sm89-fp16": "--precision fp16 --target sm80,sm89",
    }
    assert tasks[1].variant == {"target": "sm86", "precision": "fp16"}
    assert {(task.model, task.line) for task in tasks} == {("a", 4)}


def test_one_variant_is_called_as_its_model(folder: Path) -> None:
    (task,) = tasks_of(folder, f'[matrix]\nprecision = ["fp16"]\n{A}')
    assert (task.name, task.variant) == ("a", {"precision": "fp16"})


def test_values_with_names(folder: Path) -> None:
    text = '[[model]]\npath = "b.onnx"\n[model.matrix]\n'
    text += 'shapes = { small = { x = "1x3" }, large = { x = [[1, 3], [8, 3], [64, 3]] } }\n'
    assert variants(folder, text) == {
        "b/small": "--shapes x=1x3",
        "b/large": "--shapes x=1x3:8x3:64x3",
    }


def test_values_that_are_sets_of_options(folder: Path) -> None:
    text = '[matrix.gpu]\nh100 = { target = "sm90", flavour = "tensorrt", needs = { gpu = "H100" } }\n'
    text += f'any = {{ target = "sm80,sm86" }}\n{A}'
    first, second = tasks_of(folder, text)
    assert (first.variant, first.words, first.needs.gpu) == (
        {"gpu": "h100"},
        ("--target", "sm90", "--flavour", "tensorrt"),
        "H100",
    )
    assert (second.name, second.words, second.needs.gpu) == ("a/any", ("--target", "sm80,sm86"), "")


def test_gpus_by_their_names_are_targets_in_words_and_names_in_variants(folder: Path) -> None:
    tasks = tasks_of(folder, f'[matrix]\ntarget = ["rtx4090", ["SM80", "l4"]]\n{A}')
    assert [(task.name, task.words) for task in tasks] == [
        ("a/rtx4090", ("--target", "sm89")),
        ("a/SM80+l4", ("--target", "sm80,sm89")),
    ]


def test_switches_are_axes_too(folder: Path) -> None:
    text = f'[matrix]\nio-precision = [true, false]\nprecision = ["fp16"]\n{A}'
    assert variants(folder, text) == {
        "a/io-precision-fp16": "--precision fp16 --io-precision",
        "a/no-io-precision-fp16": "--precision fp16",
    }


def test_nearer_settings_win(folder: Path) -> None:
    text = '[defaults]\nprecision = "bf16"\nworkspace = 1\noptimization-level = 1\n'
    text += "[matrix.how]\none = { workspace = 2, optimization-level = 2 }\n"
    text += f'{A}optimization-level = 3\nmatrix.more = {{ x = {{ precision = "fp16" }} }}\n'
    assert variants(folder, text) == {"a": "--precision fp16 --workspace 2 --optimization-level 3"}


def test_an_option_of_a_model_is_no_axis_of_it(folder: Path) -> None:
    text = f'[matrix]\nprecision = ["fp16", "bf16"]\ntarget = ["sm86", "sm89"]\n{A}precision = "fp32"\n'
    tasks = tasks_of(folder, text)
    assert [task.name for task in tasks] == ["a/sm86", "a/sm89"]
    assert [task.words[:2] for task in tasks] == [("--precision", "fp32")] * 2


def test_default_leaves_what_holds_without_the_axis(folder: Path) -> None:
    text = f'[defaults]\nprecision = "bf16"\n[matrix]\nprecision = ["default", "fp16"]\n{A}'
    assert variants(folder, text) == {"a/default": "--precision bf16", "a/fp16": "--precision fp16"}


def test_a_model_may_leave_axes_out_or_have_its_own(folder: Path) -> None:
    zoo = '[matrix]\nprecision = ["fp16", "bf16"]\ntarget = ["sm86", "sm89"]\n'
    assert variants(folder, f"{zoo}{A}matrix = false\n") == {"a": ""}
    assert set(variants(folder, f"{zoo}{A}matrix = {{ target = false }}\n")) == {"a/fp16", "a/bf16"}
    own = f'{zoo}{A}matrix = {{ precision = ["fp32"], workspace = [1, 2], target = false }}\n'
    assert variants(folder, own) == {
        "a/fp32-1": "--precision fp32 --workspace 1",
        "a/fp32-2": "--precision fp32 --workspace 2",
    }


def test_what_stands_beside_an_option_gives_way(folder: Path) -> None:
    """--verify and --no-verify exclude each other: the nearer one holds."""
    assert variants(folder, f'[defaults]\nverify = "graph"\n{A}no-verify = true\n') == {"a": "--no-verify"}
    assert variants(folder, f"[defaults]\nno-verify = true\n{A}verify = 'graph'\n") == {"a": "--verify graph"}


def test_exclude(folder: Path) -> None:
    zoo = '[matrix]\nprecision = ["fp16", "bf16"]\ntarget = ["sm80", "sm86", "sm89"]\n'
    zoo += 'exclude = [{ precision = "bf16", target = ["sm86", "sm89"] }, { model = "[cd]", precision = "bf16" }]\n'
    names = {task.name for task in tasks_of(folder, f'{zoo}{A}[[model]]\npath = "nets/c.onnx"\n')}
    left = {"fp16-sm80", "fp16-sm86", "fp16-sm89"}
    assert names == {f"a/{name}" for name in {*left, "bf16-sm80"}} | {f"c/{name}" for name in left}


def test_exclude_of_a_model_is_for_its_variants(folder: Path) -> None:
    text = f'[matrix]\nprecision = ["fp16", "bf16"]\n{A}matrix.exclude = [{{ precision = "bf16" }}]\n'
    text += '[[model]]\npath = "nets/c.onnx"\n'
    assert [task.name for task in tasks_of(folder, text)] == ["a", "c/fp16", "c/bf16"]


def test_the_matrix_may_stand_in_defaults(folder: Path) -> None:
    assert set(variants(folder, f'[defaults.matrix]\nprecision = ["fp16", "bf16"]\n{A}')) == {
        "a/fp16",
        "a/bf16",
    }
    (problem,) = problems_of(
        folder, f'[matrix]\nprecision = ["fp16"]\n[defaults.matrix]\nprecision = ["fp16"]\n{A}'
    )
    assert "matrix is there twice" in problem.what


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ("precision = []", "an array with nothing in it"),
        ("precision = 'fp16'", 'the axis precision is "fp16"'),
        ("precision = false", "the axis precision is false"),
        ("precision = ['fp16', 'fp16']", "has the value 'fp16' twice"),
        ("target = ['sm86', 'SM86']", "twice, but for the case of letters"),
        ("target = ['sm86,sm89', ' sm86,sm89']", "cannot be part of a folder's name"),
        ("target = { a = 'sm86,sm89', b = 'SM86,sm89' }", "are the same"),
        ("target = ['rtx4090', 'sm89']", '"rtx4090" and "sm89" of the axis target are the same'),
        ("precision = ['fp17']", '"fp17" is not a value of precision'),
        ("precison = ['fp16']", "'precison' is neither an option nor"),
        ("output = ['a']", "a zoo cannot give output"),
        ("output = { a = { precision = 'fp16' } }", "a zoo cannot give output"),
        ("shapes = { x = '1x3' }", 'the value of the axis shapes is "1x3"'),
        ("shapes = [{ x = '1x3' }]", "the value of the axis shapes is"),
        ("calibration = ['a/b.npz']", "cannot be part of a folder's name"),
        ("reference = { '../x' = 'm:f' }", "axis reference"),
        ("needs = { memory = '8GiB' }", "an axis cannot be called 'needs'"),
        ("model = { a = { precision = 'fp16' } }", "an axis cannot be called 'model'"),
        ('"a\\nb" = { a = { precision = "fp16" } }', r"an axis cannot be called 'a\nb'"),
        ("how = { a = 3 }", "a is 3, not a table"),
        ("how = { a = { precison = 'fp16' } }", "unknown key 'precison'"),
        ("how = { a = { precision = 'fp17' } }", '"fp17" is not a value'),
        ("how = { a = { path = 'a.onnx' } }", "unknown key 'path'"),
        (
            "how = { a = { precision = 'fp16' } }\nprecision = ['bf16']",
            "the axes how and precision both set precision",
        ),
        (
            "precision = ['fp16']\nexclude = [{ precision = 'bf16' }]",
            "the axis precision has no value 'bf16'",
        ),
        ("precision = ['fp16']\nexclude = [{ target = 'sm86' }]", "exclude names 'target'"),
        (
            "precision = ['fp16', 'bf16']\nexclude = [{ precision = 'fp16', model = 'z' }]",
            "exclude matches nothing",
        ),
        ("precision = ['fp16']\nexclude = [{}]", "exclude has an empty table"),
        ("precision = ['fp16']\nexclude = { precision = 'fp16' }", "exclude is"),
        ("precision = ['fp16']\nexclude = ['fp16']", "not a table"),
        ("precision = ['fp16']\nexclude = [{ precision = 'fp16' }]", "exclude leaves no variant of 'a'"),
        ("precision = ['fp16', 'bf16']\nexclude = [{ precision = { a = 1 } }]", "precision in exclude is"),
    ],
)
def test_matrices_that_cannot_be(folder: Path, matrix: str, said: str) -> None:
    (problem,) = [one for one in problems_of(folder, f"[matrix]\n{matrix}\n{A}") if said in one.what]
    assert 2 <= lines_of((problem,))[0] <= 4


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (
            "precision = 'fp16'\nmatrix.precision = ['fp16', 'bf16']",
            "precision is an option of the model, and an axis",
        ),
        ("matrix.how = { a = { target = 'sm89' } }", "this axis and the zoo's axis target both set target"),
        ("matrix = true", "matrix is true, not a table"),
        ("matrix.exclude = [{ model = 'a', target = 'sm86' }]", "unknown key 'model'"),
    ],
)
def test_matrices_of_models_that_cannot_be(folder: Path, own: str, said: str) -> None:
    problems = problems_of(folder, f"[matrix]\ntarget = ['sm86', 'sm80']\n{A}{own}\n")
    assert any(said in problem.what for problem in problems)


def test_an_exclude_of_models_that_were_not_found_is_not_told_beside_them(folder: Path) -> None:
    text = "[matrix]\ntarget = ['sm86', 'sm80']\nexclude = [{ model = 'z*', target = 'sm86' }, { target = 'sm87' }]\n"
    problems = problems_of(folder, f"{text}[[model]]\npath = 'z*.onnx'\n")
    assert [problem.what for problem in problems] == [
        "the axis target has no value 'sm87'",
        "'z*.onnx' matches no model",
    ]


def test_two_variants_with_one_name(folder: Path) -> None:
    text = f"[matrix]\nrtol = {{ a = 0.1, a-b = 0.2 }}\natol = {{ c = 0.1, b-c = 0.2 }}\n{A}"
    (problem,) = problems_of(folder, text)
    assert "two variants of 'a' are called 'a-b-c'" in problem.what


def test_a_name_of_many_values_that_is_too_long(folder: Path) -> None:
    axes = "".join(f"axis{number} = {{ {'v' * 90} = {{}} , w = {{}} }}\n" for number in range(3))
    problems = problems_of(folder, f"[matrix]\n{axes}{A}")
    assert "the name of the variant is longer" in problems[0].what


def test_more_tasks_than_anybody_means(folder: Path) -> None:
    axes = "".join(
        f"axis{number} = {{ {', '.join(f'v{value} = {{}}' for value in range(10))} }}\n"
        for number in range(9)
    )
    (problem,) = problems_of(folder, f"[matrix]\n{axes}{A}[[model]]\npath = 'nets/c.onnx'\n")
    assert "up to this model there are 1,000,000,000 tasks" in problem.what


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("", Needs()),
        ("cpus = 2", Needs(cpus=2.0)),
        ("cpus = 0.5", Needs(cpus=0.5)),
        ('memory = "8GiB"', Needs(memory_mib=8192)),
        ('memory = "1.5 GiB"', Needs(memory_mib=1536)),
        ('memory = "1GB"', Needs(memory_mib=954)),
        ('memory = "1KiB"', Needs(memory_mib=1)),
        ('gpu = "H100"', Needs(gpu="H100")),
        ("gpu = true", Needs(gpu="any")),
        ("gpu = false", Needs()),
        ("timeout = 90", Needs(timeout_s=90.0)),
        ('timeout = "20m"', Needs(timeout_s=1200.0)),
        ('timeout = "1h 30m"', Needs(timeout_s=5400.0)),
        ('timeout = "2h5s"', Needs(timeout_s=7205.0)),
        ('timeout = "1.5s"', Needs(timeout_s=1.5)),
    ],
)
def test_needs(text: str, needs: Needs, folder: Path) -> None:
    (task,) = tasks_of(folder, f"[needs]\n{text}\n{A}")
    assert task.needs == needs


@pytest.mark.parametrize(
    "text",
    [
        "cpus = 0",
        "cpus = -1",
        "cpus = true",
        'cpus = "2"',
        "cpus = nan",
        "memory = 8",
        'memory = "8"',
        'memory = "8G"',
        'memory = "0GiB"',
        'memory = "99999999TiB"',
        'memory = "-1GiB"',
        "gpu = 1",
        'gpu = "H100\\n"',
        'gpu = "<b>"',
        "timeout = 0",
        "timeout = inf",
        'timeout = ""',
        'timeout = "m"',
        'timeout = "20 minutes"',
        "timeout = 07:32:00",
    ],
)
def test_needs_that_cannot_be(text: str, folder: Path) -> None:
    (problem,) = problems_of(folder, f"[needs]\n{text}\n{A}")
    name = text.partition(" ")[0]
    assert problem.what.startswith(f"{name} cannot be")
    assert f"line 2: needs.{name}" in problem.where


def test_unknown_needs_and_what_is_no_table(folder: Path) -> None:
    (problem,) = problems_of(folder, f"[needs]\nmem = 3\n{A}")
    assert "unknown key 'mem'" in problem.what
    (problem,) = problems_of(folder, f"needs = 3\n{A}")
    assert "not a table" in problem.what


def test_nearer_needs_win_key_by_key(folder: Path) -> None:
    text = f'[needs]\ncpus = 2\nmemory = "1GiB"\n{A}needs = {{ cpus = 4, gpu = "any" }}\n'
    text += 'matrix.how = { a = { needs = { gpu = "L4" } }, b = {} }\n'
    first, second = tasks_of(folder, text)
    assert first.needs == Needs(cpus=4.0, memory_mib=1024, gpu="L4")
    assert second.needs == Needs(cpus=4.0, memory_mib=1024, gpu="any")
