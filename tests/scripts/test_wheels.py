"""Wheels that tests unpack: fetched once, checked by hash, with a message on failure."""

from __future__ import annotations

import hashlib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from envsetup import wheels
from trtsmith.converter.compile.logged import SetupError


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The pin of a wheel that lies in a folder, which is all the index that pip has."""
    wheel = tmp_path / "index" / "toy_package-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("toy_package/__init__.py", "")
        archive.writestr(
            "toy_package-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n"
        )
        archive.writestr(
            "toy_package-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("toy_package-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return f"toy-package==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def test_a_version_has_all_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / "pins.txt").write_text(
        "# why\na==1 --hash=sha256:0\nb==1 --hash=sha256:1\na==2 --hash=sha256:2\n"
    )
    assert wheels.pinned(tmp_path / "pins.txt") == {
        "1": ("a==1 --hash=sha256:0", "b==1 --hash=sha256:1"),
        "2": ("a==2 --hash=sha256:2",),
    }


def test_fetched_once(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(what: str, *arguments: object) -> None:
        calls.append(what)
        run(what, *arguments)  # type: ignore[arg-type]

    run = wheels.run_logged
    monkeypatch.setattr(wheels, "run_logged", counted)
    with ThreadPoolExecutor(2) as pool:
        folders = set(pool.map(lambda _: wheels.fetch("1.0", (line,), tmp_path / "cache"), range(2)))
    assert folders == {tmp_path / "cache" / "1.0"}
    assert (tmp_path / "cache" / "1.0" / "toy_package" / "__init__.py").is_file()
    assert calls == ["fetching toy-package==1.0"]


def test_what_is_missing_or_has_another_hash_is_refused(line: str, tmp_path: Path) -> None:
    other = line.rpartition(":")[0] + ":" + "0" * 64
    with pytest.raises(SetupError, match=r"pinned SHA-256") as caught:
        wheels.fetch("1.0", (other,), tmp_path / "cache")
    assert "DO NOT MATCH THE HASHES" in caught.value.tail.upper()
    with pytest.raises(
        SetupError, match=r"fetching toy-package==2.0 failed(.|\n)*package index that serves"
    ) as caught:
        wheels.fetch("2.0", (line.replace("==1.0", "==2.0"),), tmp_path / "cache")
    assert not (tmp_path / "cache" / "2.0").exists()
