"""The command line's parsers as a zoo uses them, and what they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.batch.zoo.zoo_options import ZooCommand
from trtsmith.converter.cli.main import build_parser
from trtsmith.zoo_commands import REFUSED_OF_BENCH, REFUSED_OF_CONVERT, zoo_commands

COMMANDS = zoo_commands()


@pytest.mark.parametrize(
    ("command", "refused"), [(COMMANDS.convert, REFUSED_OF_CONVERT), (COMMANDS.bench, REFUSED_OF_BENCH)]
)
def test_the_options_are_all_that_the_command_has_but_the_refused(
    command: ZooCommand, refused: Mapping[str, str]
) -> None:
    commands = next(a for a in build_parser([command.name])._actions if isinstance(a.choices, dict))
    assert isinstance(commands.choices, dict)
    flags = {
        flag[2:] for flag in commands.choices[command.name]._option_string_actions if flag.startswith("--")
    }
    assert command.options().keys() == flags - refused.keys()
    assert len(command.options()) > 10


READ = {"calibration", "expected", "inputs", "plugins", "recipe"}


def test_no_option_of_a_zoo_names_a_file_that_is_written() -> None:
    """Files are looked for before anything runs, shipped, and made part of the cache's key: a file to write is refused."""
    options = COMMANDS.convert.options() | COMMANDS.bench.options()
    assert {name for name, action in options.items() if action.type is Path} == READ


@pytest.mark.parametrize(
    "words", [["--nonsense"], ["--precision"], ["--target", "gt5"], ["--precision=fp17"], ["extra"]]
)
def test_errors_are_raised_and_end_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as caught:
        COMMANDS.convert.parse(words)
    assert all(part for part in (caught.value.problems[0].what, caught.value.problems[0].fix))
    assert capsys.readouterr() == ("", "")


def test_every_check_names_options_that_there_are() -> None:
    for command in (COMMANDS.convert, COMMANDS.bench):
        for check in command.checks:
            assert set(check.options) <= command.options().keys()
            check.check(command.parse([]))  # nothing is wrong where nothing is given
