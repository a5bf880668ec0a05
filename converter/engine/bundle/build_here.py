"""Builds the engine of this folder with this device's trtexec, runs it, and compares its outputs with the expected ones.

    python3 build_here.py [--trtexec PATH] [--no-build]

It needs Python 3.9 and numpy, and not trtsmith. Exit code 0: every output agrees; 1: trtexec failed; 2: something is missing
here; 3: an output disagrees; 4: none does, but one could not be compared. Afterwards model.plan, the plugin library beside
it and model.manifest.json belong together. Names come from the model: `say` writes out what a terminal would act on.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

import numpy as np

PRINTED = 5e-6  # trtexec prints six digits
OF_JETPACK = "/usr/src/tensorrt/bin/trtexec"

ReadOutput = tuple[Any, np.ndarray]
"""The shape and the values of an output, flat."""


def main() -> int:
    try:
        return build_and_compare()
    # files that are not as they were written, a full disk
    except (OSError, ValueError, KeyError) as error:
        return failed(2, f"{type(error).__name__}: {error}")


def build_and_compare() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = shutil.which("trtexec") or OF_JETPACK
    parser.add_argument("--trtexec", default=default, help="TensorRT's trtexec (default: %(default)s)")
    parser.add_argument("--no-build", action="store_true", help="run the model.plan that is here already")
    options = parser.parse_args()
    folder = Path(__file__).resolve().parent
    manifest = json.loads((folder / "model.manifest.json").read_text(encoding="utf-8"))
    device = manifest["device"]
    changed = [name for name, digest in device["files"].items() if digest != digest_of(folder / name)]
    if changed:
        return failed(2, "missing here, or changed: " + ", ".join(changed))
    program = shutil.which(options.trtexec)
    if program is None:
        return failed(2, f"there is no {options.trtexec}: name TensorRT's with --trtexec PATH")
    # it runs in other folders, for which a relative path is another
    trtexec, engine = [os.path.abspath(program)], folder / "model.plan"
    library = library_for_driver(folder)
    if library is not None:
        shutil.copyfile(library, folder / library.name)
        trtexec.append(f"--dynamicPlugins={folder / library.name}")
    if not options.no_build:
        say("building model.plan ...")
        built = [*trtexec, f"--onnx={folder / 'model.onnx'}", f"--saveEngine={engine}", "--skipInference"]
        said = run([*built, *device["build"]], folder)
        if said is None:
            return failed(1, "trtexec did not build the engine")
        version = re.search(r"TensorRT v(\d+)", said)
        if version:
            number = int(version.group(1))  # 100300 is 10.3.0
            manifest["tensorrt"]["version"] = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        names = [engine.name, *([library.name] if library is not None else [])]
        manifest["files"] = {name: digest_of(folder / name) for name in names}
        (folder / "model.manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    say("running it ...")
    with tempfile.TemporaryDirectory() as work:
        files = []
        for number, (name, value) in enumerate(arrays_of(folder / "inputs.npz").items()):
            (Path(work) / f"{number}.bin").write_bytes(np.ascontiguousarray(value).tobytes())
            files.append(f"{name}:{number}.bin")
        ran = [
            *trtexec,
            f"--loadEngine={engine}",
            f"--exportOutput={folder / 'outputs.json'}",
            *device["run"],
        ]
        ran += ["--iterations=1", "--duration=0", "--warmUp=0"]
        if run([*ran, *([f"--loadInputs={','.join(files)}"] if files else [])], work) is None:
            return failed(1, "trtexec did not run the engine")
    return compare(folder, device["outputs"])


def compare(folder: Path, entries: list[dict[str, Any]]) -> int:
    """Prints for each output whether it agrees. Returns the exit code."""
    found = read_outputs((folder / "outputs.json").read_bytes().decode(errors="backslashreplace"))
    expected, bounds = arrays_of(folder / "expected.npz"), arrays_of(folder / "bounds.npz")
    disagrees = unknown = False
    for entry in entries:
        name = entry["name"]
        if "left_out" in entry:
            say(f"{name}: not compared: {entry['left_out']}")
            unknown = unknown or not entry["accepted"]
            continue
        why = difference(entry, expected[name], found.get(name), bounds.get(name))
        if why and "kind" in entry:
            unknown = True
            say(
                f"{name}: not comparable: {why}; a selection makes it ({entry['kind']}), and may order it otherwise:"
            )
            say("  install trtsmith here, and `trtsmith verify MODEL model.plan` compares it by its meaning")
        else:
            disagrees = disagrees or bool(why)
            say(f"{name}: " + (f"disagrees: {why}" if why else "agrees"))
    say("not every output agrees" if disagrees or unknown else "every output agrees")
    return 3 if disagrees else 4 if unknown else 0


def difference(
    entry: dict[str, Any], expected: np.ndarray, found: ReadOutput | None, bound: np.ndarray | None
) -> str:
    """Says why an output disagrees, or "" if it agrees."""
    if found is None:
        return "the engine has no such output"
    shape, flat = found
    if shape != list(expected.shape) or flat.size != expected.size:
        return f"shape {shape}, expected {list(expected.shape)}"
    values = flat.reshape(expected.shape)
    if "differing" in entry:
        count, most = int(np.count_nonzero(values != expected)), int(entry["differing"] * expected.size)
        return (
            f"{'1 element differs' if count == 1 else f'{count} elements differ'}, allowed {most}"
            if count > most
            else ""
        )
    values, finite = values.astype(np.float64), np.isfinite(expected)
    same = np.array_equal(values[~finite], expected[~finite].astype(np.float64), equal_nan=True)
    if not same or not np.isfinite(values[finite]).all():
        return "NaN or infinities are at other places"
    wanted = expected[finite].astype(np.float64)
    off, allowed = np.abs(values[finite] - wanted), PRINTED * np.abs(wanted)
    if "rtol" in entry:
        allowed += entry["atol"] + entry["rtol"] * np.abs(wanted)
    else:
        norm, ratio = float(np.linalg.norm(wanted)), entry["relative"]
        relative = float(np.linalg.norm(off)) / norm if norm else float(off.any())
        if relative > ratio:
            return f"relative error {relative:.1e}, allowed {ratio:.2g}"
        allowed += np.inf if bound is None else bound[finite]
    outside = int(np.count_nonzero(off > allowed))
    return f"{outside} of {off.size} elements are further off than allowed" if outside else ""


def read_outputs(text: str) -> dict[str, ReadOutput]:
    """Reads --exportOutput's file: (shape, values) by name. It may contain nan and inf, which JSON lacks.

    Names are printed as they are: control characters in them are no valid JSON either.
    """
    names = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    words = re.compile(r'"[^"]*"|(?<=[\[,] )-?(?:nan|inf)\b')
    text = words.sub(lambda word: names.get(word.group(), word.group()), text)
    return {
        one["name"]: ([int(size) for size in one["dimensions"].split("x") if size], np.array(one["values"]))
        for one in json.loads(text, strict=False)
    }


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of an .npz file. numpy itself confuses the arrays "x" and "x.npy" if a file has both."""
    with np.load(path) as archive:
        return {member.removesuffix(".npy"): archive[member] for member in archive.zip.namelist()}


def library_for_driver(folder: Path) -> Path | None:
    """Returns the plugin library for the driver's CUDA version; None if the engine needs none."""
    version = ctypes.c_int(13000)
    with contextlib.suppress(OSError):  # without a driver trtexec will say so
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    order = ("cuda12", "cuda13") if version.value < 13000 else ("cuda13", "cuda12")
    found = (folder / place / "libtrtsmith_plugins.so" for place in order)
    return next((path for path in found if path.is_file()), None)


def run(words: list[str], folder: str | Path) -> str | None:
    """Returns trtexec's output; if it failed, prints the output and returns None."""
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.decode(errors="backslashreplace")
    if done.returncode:
        for line in said.split("\n"):
            say(f"    {line}", sys.stderr)
        return None
    return said


def digest_of(path: Path) -> str:
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints one line at once, on stdout or the stream. Escapes unprintable characters, such as \\x1b."""
    stream = stream or sys.stdout
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    encoding = stream.encoding or "utf-8"  # ASCII, where the locale is C
    print(plain.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


def failed(code: int, text: str) -> int:
    say(f"error: {text}", sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
