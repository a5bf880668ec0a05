"""A recipe: options of `trtsmith convert` that `trtsmith tune` measured, in a file that people can read and change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.suggestions import nearest
from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.converter.model.fingerprint import fingerprint
from trtsmith.converter.model.model import Model

FORMAT = 1

SUFFIX = ".recipe.json"
"""Of the file beside an engine."""

_EXAMPLE = '{"choices": {"precision": "fp16", "keep_fp32": ["LayerNormalization"], "keep_only": true}}'


@dataclass(frozen=True)
class Choices(PlainData):
    """The options, under the names that they have in Python. What is not chosen has the option's own default."""

    precision: str = ""
    keep_fp32: tuple[str, ...] = ()
    keep_only: bool = False
    as_is: bool = False
    optimization_level: int | None = None

    def given(self) -> dict[str, Any]:
        """The options that are not at their defaults."""
        return {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if getattr(self, one.name) != one.default
        }

    def flags(self) -> str:
        """As they are typed."""
        words = []
        for name, value in self.given().items():
            flag = f"--{name.replace('_', '-')}"
            if value is True:
                words.append(flag)
            else:
                several = value if isinstance(value, tuple) else (value,)
                words += [f"{flag} {quote(str(one))}" for one in several]
        return " ".join(words) or "(no flags)"


@dataclass(frozen=True)
class Recipe(PlainData):
    """choices: the options. model: the fingerprint of the model that they were measured on. measured: where, and what of."""

    choices: Choices
    model: str = ""
    measured: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def text(self) -> str:
        document = self.to_json()
        document["choices"] = self.choices.given()
        return json.dumps(document, indent=2) + "\n"

    def warnings(self, model: Model) -> tuple[str, ...]:
        """That the recipe was measured on another model."""
        if not self.model or self.model == fingerprint(model):
            return ()
        return (
            "the recipe was measured on another model, or on other weights: its error and speed may be others; "
            "`trtsmith tune` measures them again",
        )


def load_recipe(path: Path) -> Recipe:
    """UsageError for a file that is no recipe. A single text stands for a list of one."""
    where, expected = f"--recipe {path}", f"a file that `trtsmith tune` wrote, or one such as {_EXAMPLE}"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        match document:
            case {"choices": {"keep_fp32": str(one)} as choices}:
                choices["keep_fp32"] = [one]
        recipe = Recipe.from_json(document)
    except OSError as error:
        raise UsageError(
            f"the recipe cannot be read: {error.strerror}", where, expected, "correct the path"
        ) from error
    except (ValueError, UnicodeDecodeError, msgspec.ValidationError, RecursionError) as error:
        what = f"the file is no recipe: {error}".replace("`$.", "`")
        raise UsageError(what, where, expected, "write it in that form, or name another file") from error
    if recipe.format != FORMAT:
        what = f"the recipe has format {recipe.format}, and this trtsmith reads {FORMAT}"
        raise UsageError(what, where, expected, "tune the model again")
    _check_names(document, Recipe, where)
    _check_names(document["choices"], Choices, f"{where}, choices")
    return recipe


def _check_names(given: Mapping[str, Any], kind: type[Recipe | Choices], where: str) -> None:
    """Raises UsageError for a name that the recipe does not have: people write recipes, too."""
    names = [one.name for one in fields(kind)]
    for name in given:
        if name not in names:
            near = nearest(name, names)
            fix = f"did you mean {near!r}?" if near else "leave it out"
            raise UsageError(f"{name!r} is no name of a recipe", where, f"one of: {', '.join(names)}", fix)
