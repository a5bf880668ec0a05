"""trtsmith completion: the scripts, and what a real shell does with the one of bash."""

from __future__ import annotations

import argparse
import os
import pty
import select
import shutil
import subprocess
import time
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.converter.cli.commands.running import Cli, refused
from tests.processes import checkout_environment
from trtsmith.converter.cli.commands.completion import SHELLS
from trtsmith.converter.cli.main import build_parser, main

COMMANDS = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices
BASH = shutil.which("bash")


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


@pytest.mark.parametrize("name", SHELLS)
def test_the_shell_reads_its_script(name: str, scripts: dict[str, Path]) -> None:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    subprocess.run([program, "-n", scripts[name]], check=True)


def completed(script: Path, folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word, without typing: its own function for the command is called.

    There is no trtsmith on the PATH: completion is asked for at every key, and must not start it.
    """
    program = f"""
source {script}
COMP_WORDS=(trtsmith {" ".join(f"'{word}'" for word in words)})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
function=$(complete -p trtsmith | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function trtsmith "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        [str(BASH), "--norc", "-c", program],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["conv"], ["convert"]),
        (["op", "b"], ["build"]),
        (["build"], []),
        (["convert", "--prec"], ["--precision"]),
        (["convert", "--precision", "f"], ["fp32", "fp16", "fp8"]),
        (["run", "--specialization", "e"], ["eager"]),
        (["plugin", "ins"], ["inspect"]),
        (["plugin", "bench", "--js"], ["--json"]),
        (["check", "mod"], ["model.onnx", "model.cache", "models"]),
        (["convert", "model.onnx", "--timing-cache", "model.c"], ["model.cache"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_what_bash_offers(
    words: list[str], offered: list[str], scripts: dict[str, Path], tmp_path: Path
) -> None:
    for name in ("model.onnx", "model.cache"):
        (tmp_path / name).touch()
    (tmp_path / "models").mkdir()
    assert set(completed(scripts["bash"], tmp_path, *words)) == set(offered)


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_tab_completes_in_a_real_bash(scripts: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "the model.onnx").touch()
    leader, follower = pty.openpty()
    environment = {
        **checkout_environment(),
        "TERM": "dumb",
        "PS1": "> ",
        "HOME": str(tmp_path),
        "INPUTRC": "/dev/null",
    }
    bash = subprocess.Popen(
        [str(BASH), "--norc", "--noprofile", "-i"],
        cwd=tmp_path,
        env=environment,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    try:
        trick = "trtsmith() { printf '<%s>' \"$@\"; echo; }\n"  # what would be run
        os.write(leader, f"source {scripts['bash']}\n{trick}trtsmith conv\tthe\t--precision bf\t\n".encode())
        said, end = b"", time.monotonic() + 120
        while b"<convert><the model.onnx><--precision><bf16>" not in said and time.monotonic() < end:
            if select.select([leader], [], [], 0.5)[0]:
                said += os.read(leader, 65536)
        assert b"<convert><the model.onnx><--precision><bf16>" in said, said.decode()
    finally:
        bash.kill()
        bash.wait()
        os.close(leader)


def test_a_shell_that_is_not_known(cli: Cli) -> None:
    refused(cli("completion tcsh"), 2, "one of bash, zsh, fish")
    refused(cli("completion"), 2, "required: SHELL")
