"""Options are declared once: what follows from a declaration for Python and for the command line."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser
from pathlib import Path
from typing import Annotated

import pytest
from typing_extensions import TypedDict, Unpack

import trtsmith
from trtsmith.argument_types import checked_types
from trtsmith.converter.model.options.declared import Flag, keywords, with_defaults
from trtsmith.converter.model.options.kinds import Paths, StrPath, Texts, positive_int
from trtsmith.flags import add_options
from trtsmith.options import Operators


class Counting(TypedDict, total=False):
    """what is counted"""

    names: Annotated[Texts, Flag("of {}", "NAME")]
    most: Annotated[int | None, Flag("at most so many", "N")]
    every: Annotated[bool, Flag("all of them", alone="which")]


class Files(TypedDict, total=False):
    kept: Annotated[StrPath | None, Flag("where", "FILE", "-k", "--kept"), Flag("no file", "", "--none")]
    read: Annotated[Paths, Flag("what is read", "FILE")]
    in_memory: bool


class CountOptions(Counting, Files, Operators, total=False):
    """The options of a command."""


class OfTerminal(TypedDict, total=False):
    json: Annotated[bool, Flag("as JSON")]


def count(**options: Unpack[CountOptions]) -> object:
    return with_defaults(CountOptions, options)


def test_the_function_has_the_options_as_keywords() -> None:
    call = checked_types(CountOptions)(count)
    assert str(inspect.signature(call)).startswith(
        "(*, names: 'Texts' = (), most: 'int | None' = None, every: 'bool' = False, kept: 'StrPath | None' = None,"
    )
    told = {"names": (), "every": False, "kept": None, "read": (), "in_memory": False, "ops": ()}
    assert vars(call(most=3)) == {**told, "most": 3, "plugins_from_packages": True}  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="unexpected keyword argument 'moist'"):
        call(moist=3)
    with pytest.raises(trtsmith.UsageError, match="most is of the type str"):
        call(most="3")


def test_the_command_has_them_as_flags_in_groups() -> None:
    parser = ArgumentParser()
    add_options(parser, CountOptions, OfTerminal, names="the counted")
    titles = [group.title for group in parser._action_groups if group._group_actions]
    assert titles[1:] == ["what is counted", "your own operators"]
    order = [action.dest for action in parser._actions][1:]
    assert order == ["names", "most", "every", "kept", "none", "read", "json", "ops", "plugins_from_packages"]
    assert parser._option_string_actions["--names"].help == "of the counted"
    found = parser.parse_args(["--names", "a", "--names=b", "-k", "f", "--read", "g", "--most", "2"])
    told = {"names": ["a", "b"], "most": 2, "kept": Path("f"), "read": [Path("g")], "ops": []}
    left = {"every": False, "in_memory": False, "plugins_from_packages": True}
    assert keywords(CountOptions, found) == told | left


def test_a_number_that_is_none_is_told() -> None:
    parser = ArgumentParser(exit_on_error=False)
    add_options(parser, CountOptions, names="")
    assert positive_int("7") == 7
    with pytest.raises(Exception, match="'0' is not a whole number from 1"):
        parser.parse_args(["--most", "0"])


def test_run_refuses_arguments_of_a_wrong_type_as_the_others_do() -> None:
    with pytest.raises(trtsmith.UsageError, match="profile is of the type str"):
        trtsmith.run("model.plan", {}, profile="first")  # type: ignore[arg-type]
