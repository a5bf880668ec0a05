"""Reads and writes Polygraphy's JSON of inputs and outputs, through Polygraphy's own library.

A path with a suffix is one file; one without is a folder with a file for each iteration, as for `polygraphy run`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import check_report, unfinished_folder, write_text
from trtsmith.converter.base.own_files import JSON_END, POLYGRAPHY

PACKAGE = "pip install 'polygraphy>=0.53.6,<0.54' (trtsmith's extra: polygraphy)"
ENGINE = "trtsmith-engine"
"""The runner by which saved outputs go."""

_LOGGER = Lock()

_NO_INPUTS = "it holds the outputs of runners, not inputs"
_NO_OUTPUTS = "it holds no outputs of runners"


def need_polygraphy(flag: str, path: Path) -> None:
    """Raises UsageError if Polygraphy is not installed."""
    if importlib.util.find_spec("polygraphy") is None:
        what, expected = "Polygraphy is not installed", "the package that reads and writes its JSON"
        raise UsageError(what, f"{flag} {path}", expected, f"{PACKAGE}; or use .npz files")


def load_inputs_json(paths: Sequence[Path], flag: str) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Reads inputs by name for each iteration, from `polygraphy run --save-inputs`, with the file of each.

    UsageError for what is not such a file.
    """
    for path in paths:
        need_polygraphy(flag, path)
        from polygraphy.comparator import RunResults, StreamingDataLoader

        found = _read(path, flag, lambda path=path: list(StreamingDataLoader([str(path)])))
        for one in found:
            if isinstance(one, RunResults):
                raise _unreadable(path, flag, _NO_INPUTS)
            yield str(path), _arrays(one, path, flag)


def load_outputs_json(path: Path, flag: str) -> tuple[dict[str, np.ndarray], ...]:
    """Reads outputs by name for each iteration, from `polygraphy run --save-outputs` with one runner.

    UsageError for what is not such a file, and for outputs of several runners.
    """
    need_polygraphy(flag, path)
    from polygraphy.comparator import RunResults

    runs = _read(path, flag, lambda: list(RunResults.load_streaming(str(path))))
    try:
        items = [list(run.items()) for run in runs]
        results = [(str(name), result) for one in items for name, iterations in one for result in iterations]
    except Exception as error:
        raise _unreadable(path, flag, _NO_OUTPUTS) from error
    names = list(dict.fromkeys(name for name, _ in results))
    if len(names) > 1 or any(len(one) != 1 for one in items):
        raise UsageError(
            f"the file holds the outputs of several runners: {', '.join(map(repr, names))}",
            f"{flag} {path}",
            "the outputs of one",
            "save them with one runner: polygraphy run MODEL --trtsmith-reference --save-outputs FILE.json",
        )
    return tuple(_arrays(result, path, flag) for _, result in results)


def check_target(
    path: Path | None, others: Iterable[object], flag: str, what: str, *, force: bool = False
) -> None:
    """Raises UsageError, before any work, if the file cannot be written. what: "the inputs"."""
    if path is None:
        return
    need_polygraphy(flag, path)
    if path.suffix:
        check_report(path, others, flag, what, POLYGRAPHY, force=force)
        return
    where = f"{flag} {path}"
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            fix = f"name another folder, or a file: {flag} {path}.json"
            raise UsageError(f"{what} would overwrite existing files", where, "an empty or new folder", fix)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _unwritable(path, flag, what, error) from error


def save_inputs_json(path: Path, iterations: Sequence[Mapping[str, np.ndarray]], flag: str) -> None:
    """Writes inputs by name for each iteration, for `polygraphy run --load-inputs`; completely or not at all."""
    from polygraphy.json import to_json

    plain = [OrderedDict(plain_arrays(one)) for one in iterations]
    _save(path, flag, "the inputs", (to_json(one) for one in ([plain] if path.suffix else plain)))


def save_outputs_json(path: Path, iterations: Sequence[Mapping[str, np.ndarray]], flag: str) -> None:
    """Writes the engine's outputs for each iteration, for `polygraphy run --load-outputs`; completely or not at all."""
    from polygraphy.comparator import IterationResult, RunResults

    with _quiet():
        results = [IterationResult(plain_arrays(one), runner_name=ENGINE) for one in iterations]
    runs = [results] if path.suffix else [[one] for one in results]
    _save(path, flag, "the outputs", (RunResults([(ENGINE, run)]).to_json() for run in runs))


def plain_arrays(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the arrays; types that numpy lacks (bfloat16, float8) become float32, which holds their values exactly."""
    return {
        name: np.ascontiguousarray(array.astype(np.float32) if array.dtype.kind == "V" else array).reshape(
            array.shape
        )
        for name, array in arrays.items()
    }


def of_types(arrays: Mapping[str, np.ndarray], types: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Undoes `plain_arrays`: converts what it made float32 back, by name; other arrays and values stay."""
    result = dict(arrays)
    for name, dtype in types.items():
        declared, value = np.dtype(dtype), arrays.get(name)
        if value is not None and declared.kind == "V" and value.dtype == np.float32:
            with np.errstate(all="ignore"):
                there = value.astype(declared)
                exact = np.array_equal(there.astype(np.float32), value, equal_nan=True)
            result[name] = there if exact else value
    return result


@contextmanager
def _quiet() -> Iterator[None]:
    """In this context Polygraphy's logger is silent: it writes to stdout, where results go, and the messages are ours.

    It is one for the process: a thread at a time.
    """
    from polygraphy.logger import G_LOGGER

    with _LOGGER, G_LOGGER.verbosity(G_LOGGER.CRITICAL + 1):
        yield


def _read(path: Path, flag: str, load: Any) -> list[Any]:
    try:
        if not path.exists():
            raise FileNotFoundError("there is no such file")
        if path.is_dir() and not any(path.glob("*.json")):
            raise ValueError("the folder holds no .json files")
        with _quiet():
            found: list[Any] = load()
    except Exception as error:  # of JSON, base64, numpy, PyTorch and Polygraphy
        raise _unreadable(path, flag, _short(str(error) or type(error).__name__)) from error
    if not found:
        raise _unreadable(path, flag, "it holds no iteration")
    return found


def _arrays(iteration: Any, path: Path, flag: str) -> dict[str, np.ndarray]:
    try:
        arrays = {name: _array(value) for name, value in iteration.items()}
    except Exception as error:
        raise _unreadable(path, flag, "it does not map names to arrays") from error
    if not all(isinstance(name, str) for name in arrays):
        raise _unreadable(path, flag, "it does not map names to arrays")
    return arrays


def _array(value: Any) -> np.ndarray:
    """PyTorch's tensors as arrays; those of types that numpy has not are float32."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value
    if type(value).__module__.partition(".")[0] != "torch":
        raise TypeError(type(value).__name__)
    there = value.detach().cpu()
    try:
        return np.asarray(there.numpy())
    except TypeError:
        return np.asarray(there.float().numpy())


def _unreadable(path: Path, flag: str, reason: str) -> UsageError:
    return UsageError(
        f"the file cannot be read: {reason}",
        f"{flag} {path}",
        "JSON that Polygraphy wrote",
        "write it with polygraphy run --save-inputs or --save-outputs",
    )


def _short(text: str) -> str:
    first = text.splitlines()[0]
    return first if len(first) <= 300 else first[:297] + "..."


def _save(path: Path, flag: str, what: str, texts: Iterable[str]) -> None:
    if path.suffix:
        for text in texts:
            write_text(path, text + JSON_END, flag, what)
        return
    unfinished = ""
    try:
        unfinished = str(unfinished_folder(path.parent))
        for index, text in enumerate(texts):
            Path(unfinished, f"{index:010d}.json").write_text(text + "\n", encoding="utf-8")
        os.rename(unfinished, path)  # an empty folder of that name gives way
        unfinished = ""
    except OSError as error:
        raise _unwritable(path, flag, what, error) from error
    finally:
        if unfinished:
            shutil.rmtree(unfinished, ignore_errors=True)


def _unwritable(path: Path, flag: str, what: str, error: OSError) -> UsageError:
    said = f"{what} cannot be written: {error.strerror or error}"
    return UsageError(said, f"{flag} {path}", "an empty or new folder", "name another folder")
