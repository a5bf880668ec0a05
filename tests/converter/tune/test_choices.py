"""Engines of a search are made as `convert --recipe` makes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from trtsmith.convert_function import CONVERSION, conversion_of
from trtsmith.converter.base.options.declared import with_defaults
from trtsmith.converter.convert.recipe import Choices, Recipe
from trtsmith.converter.tune.choices import applied

MODEL = Path("model.onnx")


def options(**given: object) -> SimpleNamespace:
    return with_defaults(CONVERSION, given)


@pytest.mark.parametrize(
    "choices",
    [
        Choices(),
        Choices(as_is=True),
        Choices("fp16", ("norm", "head*"), keep_only=True),
        Choices("bf16", optimization_level=5),
        Choices("int8"),
        Choices("fp8", ("norm",)),
    ],
    ids=Choices.flags,
)
def test_a_choice_is_what_a_recipe_says(choices: Choices, tmp_path: Path) -> None:
    recipe = tmp_path / "model.recipe.json"
    recipe.write_text(Recipe(choices).text())
    calibration = {"calibration": ["samples.npz"]} if choices.precision in ("int8", "fp8") else {}
    read = conversion_of(MODEL, None, options(recipe=recipe, **calibration))
    made = applied(choices, conversion_of(MODEL, None, options()), (Path("samples.npz"),))
    assert replace(read, recipe=None) == made
