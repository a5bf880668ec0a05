"""Measures one network in one precision: makes all ways first, then times them while no other job is timed."""

from __future__ import annotations

import fcntl
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpucheck.network_list import Network, ours
from models import MODELS
from networkbench.graphs import GRID_SAMPLE, WAYS, rewritten
from networkbench.timing import medians
from networkbench.ways import DEVICE, Way, engine_way, multiply_as_tensorrt, reduced, torch_ways

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")  # there are as many jobs as cores

SHOWN_LAYERS = 25


def work(
    job: str,
    folder: Path,
    bundle: str,
    ways: list[str],
    decisions: dict[str, Any],
    count: int,
    gate: str,
    making_s: float,
) -> dict[str, Any]:
    """Runs a job. `job`: network:precision:batch. decisions: networkbench/decisions.py. count: jobs made side by side;
    timing starts once all are made and `gate` exists, or after making_s. Anything not made by then is left out.
    """
    began = time.monotonic()
    torch.set_num_threads(4)  # of the CPU: as many jobs as cores are made at once
    name, precision, batch = job.split(":")
    network = ours(name, Path(bundle))
    feeds = _inputs(name, int(batch))
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    multiply_as_tensorrt()
    made: dict[str, Way] = {}
    missing: dict[str, str] = {}
    try:
        place = folder / job.replace(":", "_")
        makers = _makers(network, precision, feeds, place, stream, Path(bundle), decisions.get(name, {}))
        for way in ways:
            make = makers.get(way)
            if make is None:
                continue
            if time.monotonic() > began + making_s:
                missing[way] = "no time was left to make it"
                continue
            try:
                made[way] = make()
            except Exception as error:  # a way that fails is a finding of its own
                missing[way] = f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
                traceback.print_exc()
    finally:
        (folder / f"{job}.made").touch()
    rows: dict[str, Any] = {way: {"unavailable": reason} for way, reason in missing.items()}
    ready = time.monotonic()
    with alone(folder, count, gate, began + making_s):
        entered = time.monotonic()
        exact = _exact(name, feeds, folder / f"{name}.{batch}.npz")
        for way, figures in medians({way: it.run for way, it in made.items()}).items():
            rows[way] = {**figures, **made[way].told, "errors": _errors(made[way].outputs(), exact)}
            layers = made[way].layers
            if layers is not None:
                rows[way]["layers"] = short(layers())
    seconds = {"making": round(ready - began, 1), "timing": round(time.monotonic() - entered, 1)}
    return {"rows": rows, "seconds": seconds}


def _makers(
    network: Network,
    precision: str,
    feeds: Mapping[str, np.ndarray],
    folder: Path,
    stream: torch.cuda.Stream,
    bundle: Path,
    decisions: Mapping[str, Any],
) -> dict[str, Callable[[], Way]]:
    """The functions that make each way."""
    folder.mkdir()

    def engine(way: str, path: Path) -> Way:
        result = reduced(rewritten(path, way), precision, decisions.get(way, {}).get("kept", {}))
        return engine_way(result, way.replace(", ", "_"), feeds, folder, stream)

    paths = dict.fromkeys(WAYS, network.write(folder))
    if network.name + GRID_SAMPLE in MODELS:
        paths["GridSample"] = ours(network.name + GRID_SAMPLE, bundle).write(folder)
    else:
        del paths["GridSample"]
    makers: dict[str, Callable[[], Way]] = {way: partial(engine, way, path) for way, path in paths.items()}
    module = MODELS[network.name].make(batch=1)[0]
    return makers | torch_ways(module, feeds, MODELS[network.name].output_names, precision)


def _inputs(name: str, batch: int) -> dict[str, np.ndarray]:
    return {key: tensor.numpy() for key, tensor in MODELS[name].make(batch=batch)[1].items()}


def _exact(name: str, feeds: Mapping[str, np.ndarray], kept: Path) -> Mapping[str, np.ndarray]:
    """The outputs in float64, by name. kept: the file that stores them for jobs in other precisions."""
    if not kept.exists():
        given = [torch.from_numpy(array).to(DEVICE) for array in feeds.values()]
        module = MODELS[name].make(batch=1)[0].to(DEVICE, torch.float64)
        with torch.inference_mode():
            found = module(*(x.double() if x.is_floating_point() else x for x in given))
        outputs = found if isinstance(found, tuple) else (found,)
        arrays = zip(MODELS[name].output_names, (x.cpu().numpy() for x in outputs), strict=True)
        np.savez(kept, **dict(arrays))
    return dict(np.load(kept))


def _errors(outputs: Mapping[str, torch.Tensor], exact: Mapping[str, np.ndarray]) -> dict[str, float]:
    """||y - x|| / ||x|| of each output."""
    found = {}
    for name, right in exact.items():
        wanted = torch.from_numpy(right).to(DEVICE)
        error = (outputs[name].to(DEVICE).double() - wanted).norm() / wanted.norm()
        found[name] = float(f"{error.item():.3g}")
    return found


def short(profile: dict[str, Any]) -> dict[str, Any]:
    """A profile with only its slowest layers."""
    return {**profile, "layers": profile["layers"][:SHOWN_LAYERS], "count": len(profile["layers"])}


@contextmanager
def alone(folder: Path, count: int, gate: str, latest: float) -> Iterator[None]:
    """Waits until every job is made and the gate exists, or until `latest`, and then for the lock on timing."""
    while time.monotonic() < latest:
        if len(list(folder.glob("*.made"))) >= count and (not gate or Path(gate).exists()):
            break
        time.sleep(0.2)
    with (folder / "alone.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        torch.cuda.synchronize()
