"""trtsmith completion: its scripts in real shells."""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import time
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.converter.cli.commands.running import Cli, refused
from tests.processes import readable
from trtsmith.converter.cli.commands.completion import SHELLS
from trtsmith.converter.cli.main import build_parser, main

COMMANDS = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices
IN_SHELLS = {name: pytest.param(name, marks=pytest.mark.program(name)) for name in SHELLS}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("completion")
    for name in SHELLS:
        with (folder / name).open("w") as script, redirect_stdout(script):
            assert main(["completion", name]) == 0
    return {name: folder / name for name in SHELLS}


@pytest.mark.parametrize("name", SHELLS)
def test_every_command_and_flag_is_in_the_script(name: str, scripts: dict[str, Path]) -> None:
    script = scripts[name].read_text()
    for command, parser in COMMANDS.items():
        assert command in script
        for flag in parser._option_string_actions:
            told = f"-l {flag[2:]}" if name == "fish" and flag.startswith("--") else flag
            assert flag == "-h" or len(flag) == 2 or told in script, flag
    assert "fp32 fp16 bf16" in script or all(f"'{kind}'" in script for kind in ("fp32", "fp16", "bf16"))


@pytest.mark.parametrize("name", IN_SHELLS.values())
def test_the_shell_reads_its_script(name: str, scripts: dict[str, Path]) -> None:
    subprocess.run([name, "-n", scripts[name]], check=True)


BASH = """
source "$0"
COMP_WORDS=(trtsmith "$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
function=$(complete -p trtsmith | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function trtsmith "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'source $argv[1]; complete -C "trtsmith $argv[2..]"'


def completed(shell: str, script: Path, folder: Path, *words: str) -> list[str]:
    """What bash or fish offers for the last word, without typing; zsh offers only where one types.

    There is no trtsmith on the PATH: completion is asked for at every key, and must not start it.
    """
    options = {"bash": ["--norc", "-c", BASH], "fish": ["--no-config", "-c", FISH]}[shell]
    done = subprocess.run(
        [shell, *options, script, *words],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.partition("\t")[0].rstrip("/") for line in done.stdout.split("\n") if line]


@pytest.mark.parametrize("shell", [IN_SHELLS["bash"], IN_SHELLS["fish"]])
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["conv"], ["convert"]),
        (["op", "b"], ["build"]),
        (["build"], []),
        (["convert", "--prec"], ["--precision"]),
        (["convert", "--precision", "f"], ["fp32", "fp16", "fp8", "fp8+fp16", "fp8+bf16"]),
        (["run", "--specialization", "e"], ["eager"]),
        (["plugin", "ins"], ["inspect"]),
        (["plugin", "bench", "--js"], ["--json"]),
        (["check", "mod"], ["model.onnx", "model.cache", "models"]),
        (["convert", "model.onnx", "--timing-cache", "model.c"], ["model.cache"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_what_a_shell_offers(
    words: list[str], offered: list[str], shell: str, scripts: dict[str, Path], tmp_path: Path
) -> None:
    for name in ("model.onnx", "model.cache"):
        (tmp_path / name).touch()
    (tmp_path / "models").mkdir()
    assert set(completed(shell, scripts[shell], tmp_path, *words)) == set(offered)


SHOW = "trtsmith() { printf '<%s>' \"$@\"; echo; }"  # what would be run
AT_HOME = {
    "bash": ("completions", "--norc --noprofile -i", f"source completions\n{SHOW}"),
    "zsh": (".zfunc/_trtsmith", "-f -i", f"fpath+=~/.zfunc; autoload -U compinit; compinit -u -D\n{SHOW}"),
    "fish": (
        ".config/fish/completions/trtsmith.fish",
        "-i",
        "function trtsmith; printf '<%s>' $argv; echo; end",
    ),
}
"""Where the script lies, the shell's options, and the lines that come before trtsmith's."""


@pytest.mark.parametrize("shell", IN_SHELLS.values())
@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("conv\tthe\t--precision bf\t", "<convert><the model.onnx><--precision><bf16>"),
        ("plugin ins\t--js\tthe\t", "<plugin><inspect><--json><the model.onnx>"),
    ],
)
def test_tab_completes(typed: str, wanted: str, shell: str, scripts: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "the model.onnx").touch()
    place, options, before = AT_HOME[shell]
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(scripts[shell].read_text())
    leader, follower = pty.openpty()
    home = {"TERM": "dumb", "PS1": "> ", "HOME": str(tmp_path), "INPUTRC": "/dev/null"}
    process = subprocess.Popen(
        ["setsid", "--ctty", shell, *options.split()],  # fish reads from no other terminal than its own
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", **home},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    try:
        os.write(leader, f"{before}\ntrtsmith {typed}\n".encode())
        said, end = "", time.monotonic() + 120
        while wanted not in said and time.monotonic() < end:
            if readable(leader, 0.5):
                said += os.read(leader, 65536).decode(errors="replace")
        assert wanted in said, said
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def test_a_shell_that_is_not_known(cli: Cli) -> None:
    refused(cli("completion tcsh"), 2, "one of bash, zsh, fish")
    refused(cli("completion"), 2, "required: SHELL")
