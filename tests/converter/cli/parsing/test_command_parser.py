"""Mistakes on the command line are reported together, with suggestions; help fits the screen."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from tests.converter.cli.commands.running import Cli, refused
from trtsmith.converter.cli.main import build_parser
from trtsmith.converter.cli.parsing.command_parser import color_of
from trtsmith.converter.cli.parsing.help_text import filled


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser, and those of its commands and their actions."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from parsers(child)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("convrt m.onnx", "'convert'"),
        ("Check m.onnx", "'check'"),
        ("op biuld package", "'build'"),
        ("plugin insepct", "'inspect'"),
        ("convert m.onnx --shape x=1", "--shapes"),
        ("convert m.onnx --workspce=1", "--workspace"),
        ("convert m.onnx --keepFp32=a", "--keep-fp32"),
        ("convert m.onnx --precision pf16", "'fp16'"),
        ("convert m.onnx --flavour tensorrt-rtx", "'tensorrt_rtx'"),
        ("check m.onnx --color=allways", "'always'"),
    ],
)
def test_what_was_meant(words: str, meant: str, cli: Cli) -> None:
    refused(cli(words), 2, f"did you mean {meant}?")


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("--precision fp16,bf16", "choose one: --precision fp16, or --precision bf16\n"),
        ("--precision tf32", "leave it out: TensorRT computes float32 in TF32 where the GPU has it"),
        ("--noTF32", "NVIDIA_TF32_OVERRIDE=0 in the environment, of the build and of each run, turns it off"),
    ],
)
def test_precisions_that_are_no_choice(words: str, fix: str, cli: Cli) -> None:
    refused(cli(f"convert m.onnx {words}"), 2, fix)


def test_help_is_a_command_as_well(cli: Cli) -> None:
    for words, other in (
        ("help check", "check --help"),
        ("help", "--help"),
        ("help op new", "op new --help"),
    ):
        assert cli(words).out == cli(other).out != ""


def test_nothing_is_guessed_that_is_not_near(cli: Cli) -> None:
    for words in ("frobnicate", "convert m.onnx --frobnicate", "check m.onnx --flavour=gpu"):
        ran = cli(words)
        refused(ran, 2)
        assert "did you mean" not in ran.err


def test_all_unknown_flags_are_told_before_what_is_missing(cli: Cli) -> None:
    ran = cli("convert --bogus --more=1 -q")
    refused(ran, 2, "unknown flag --bogus", "unknown flag --more")
    assert "required" not in ran.err
    refused(cli("convert"), 2, "required: MODEL", "trtsmith convert MODEL", "[OPTIONS]")


@pytest.mark.parametrize("words", [["check", "m.onnx", "-z"], ["plugin", "inspect", "a.so", "-z"]])
def test_words_too_many_are_told_of_by_their_command(words: list[str], cli: Cli) -> None:
    command = " ".join(word for word in words[:-1] if "." not in word)
    refused(cli(*words), 2, "unrecognized arguments: -z", f"`trtsmith {command}`")


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("convert m.onnx m.plan", "write -o m.plan"),
        ("run m.plan in.npz", "write --inputs in.npz"),
        ("convert m.onnx --io-precision fp16", "leave fp16 out: --io-precision takes no value"),
        ("check m.onnx other", "trtsmith check --help"),
        ("m.onnx -o m.plan", "trtsmith convert m.onnx"),
    ],
)
def test_a_word_in_the_wrong_place_is_told_its_flag(words: str, fix: str, cli: Cli) -> None:
    refused(cli(words), 2, f"fix:      {fix}\n")


def test_values_are_no_flags(cli: Cli) -> None:
    for words in (["check", "--", "--bogus"], ["check", "--bogus of a file"], ["check", "--shapes=--x"]):
        assert "unknown flag" not in cli(*words).err
    refused(
        cli("--bogus check --else"),
        2,
        "unknown flag --bogus",
        "the command line of `trtsmith`",
    )


def test_the_command_alone_shows_all_commands_in_groups_as_its_help_does(
    cli: Cli,
) -> None:
    ran = cli()
    assert ran.code == 2 and ran.out == "" and "error" not in ran.err
    assert ran.err == build_parser().format_help()
    shown = re.findall(r"^  ([a-z][a-z-]*)  +\S", ran.err, re.MULTILINE)
    (commands,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert sorted(shown) == sorted(commands.choices)
    assert max(map(len, ran.err.splitlines())) <= 100


def test_help_stays_within_100_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("250", "80"):
        monkeypatch.setenv("COLUMNS", columns)
        for parser in parsers(build_parser()):
            wide = [line for line in parser.format_help().splitlines() if len(line) > 100]
            assert wide == [], parser.prog


def test_the_help_of_every_command_fits_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for parser in parsers(build_parser()):
        assert len(parser.format_help().splitlines()) <= 50, parser.prog


def test_every_help_ends_with_examples_that_are_commands() -> None:
    leaves = [parser for parser in parsers(build_parser()) if parser._subparsers is None]
    for parser in leaves:
        _, _, examples = parser.format_help().partition("\nexamples:\n")
        commands = re.findall(r"^  (trtsmith .*)", examples.replace(" \\\n", ""), re.MULTILINE)
        assert commands, parser.prog
        for command in commands:
            if command.startswith(parser.prog):
                words = shlex.split(command.partition(" > ")[0])[1:]
                assert parser.prog.startswith(f"trtsmith {build_parser(words).parse_args(words).command}")


def test_former_names_of_commands_work_and_are_not_shown(cli: Cli) -> None:
    assert cli("new --help").out == cli("op new --help").out
    assert cli("build-plugins --help").out == cli("op build --help").out
    refused(cli("build-plugins none"), 2, "there is no such folder")
    assert "build-plugins" not in cli("--help").out and " new " not in cli("--help").out


def test_help_all_shows_every_flag_by_group(cli: Cli) -> None:
    short, every = cli("convert --help"), cli("convert --help-all")
    assert (short.code, every.code, short.err, every.err) == (0, 0, "", "")
    groups = "model, shapes and inputs, precision, engine, verdict, output, your own operators"
    titles = re.compile(r"^(\S.*):$", re.MULTILINE)
    assert titles.findall(short.out) == [*groups.split(", "), "examples"]
    assert set(titles.findall(short.out)) < set(titles.findall(every.out))
    flags = build_parser(["convert"])._subparsers._group_actions[0].choices["convert"]._actions  # type: ignore[union-attr, index]
    names = {name for action in flags for name in action.option_strings if name != "--help-all"}
    shown = re.compile(r"(?<=[ ,])--?[\w-]+(?=[ ,\n])")
    assert names <= set(shown.findall(every.out)) and len(names) > 45
    common = {"--shapes", "--precision", "--target", "--output", "--dry-run", "--expected", "--html", "--ops"}
    assert common <= set(shown.findall(short.out)) and "--reduce-timeout" not in short.out
    assert short.out.endswith("trtsmith convert --help-all shows all its flags.\n")
    assert cli("run --help").out == cli("run --help-all").out  # it has few


@pytest.mark.parametrize(
    ("command", "most"), [("convert", 45), ("check", 45), ("rewrite", 45), ("verify", 45)]
)
def test_short_help_fits_a_small_terminal(
    command: str, most: int, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each flag it has the first clause; brackets belong to it, and the reference has the rest."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli(f"{command} --help").out.splitlines()
    assert len(lines) <= most and max(map(len, lines)) < 80
    short, every = (" ".join(cli(f"convert {flag}").out.split()) for flag in ("--help", "--help-all"))
    rest = "run layers in this type where accuracy allows; inputs and outputs keep their types."
    assert rest in every and rest.split(";")[0] in short and rest not in short


def test_help_is_filled_and_examples_stay_commands() -> None:
    text = "one two three\nfour five\n\nexamples:\n  trtsmith convert m.onnx -o m.plan --shapes x=1\n  trtsmith check"
    assert filled(text, 27) == (
        "one two three four five\n\nexamples:\n"
        "  trtsmith convert m.onnx \\\n      -o m.plan --shapes \\\n      x=1\n  trtsmith check\n"
    )


def test_the_colour_is_known_before_the_line_is_parsed() -> None:
    assert color_of(["check", "--color", "never"]) == color_of(["--color=never"]) == "never"
    assert color_of(["check", "--color"]) == color_of(["--color", "what"]) == color_of([]) == "auto"


@pytest.mark.parametrize(
    "words",
    ["--precision int8 --precision fp16", "-o a.plan --output b.plan", "--minShapes=x:1 --minShapes=x:2"],
)
def test_a_flag_of_one_value_is_not_given_twice(words: str, cli: Cli) -> None:
    first = words.split("=")[0].split(" ")[0]
    refused(cli(f"convert m.onnx {words}"), 2, f"argument {first}", "one value", "leave one of them out")


def test_the_values_of_a_list_add_up() -> None:
    parser = build_parser(["convert"])
    words = "convert m.onnx --target sm86 --target sm89,sm86 --minShapes=x:1 --profile=1 --minShapes=x:2"
    asked = parser.parse_args(words.split())
    assert asked.target == ("sm86", "sm89") and [one.minShapes for one in asked.profiles] == ["x:1"]
    bench = build_parser(["bench"]).parse_args(["bench", "m.plan", "--at", "min", "--at", "max"])
    assert bench.at == ("min", "max")
    assert build_parser(["bench"]).parse_args(["bench", "m.plan"]).at == ("opt",)
