"""The function of the public API that converts many models."""

from __future__ import annotations

import os
from pathlib import Path

from trtsmith.argument_types import checked_types
from trtsmith.arguments import Progress, StrPath, Texts, path_of, silent, texts_of
from trtsmith.converter.batch.driver import BatchRequest, BatchResult, run_batch
from trtsmith.converter.batch.store import default_folder
from trtsmith.converter.batch.zoo.read_zoo import read_zoo
from trtsmith.converter.cli.batch_options import zoo_commands
from trtsmith.converter.cli.batch_progress import ProgressLines


@checked_types
def batch(
    zoo: StrPath,
    output: StrPath,
    *,
    only: Texts = (),
    on: str | None = None,
    jobs: int | None = None,
    cache: StrPath | None = None,
    no_cache: bool = False,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> BatchResult:
    """Convert all models of a zoo into a folder; what it holds already is kept.

    zoo:          the file that lists them, which docs/reference/zoo-files.md describes.
    output:       the folder: of each task one with its engine and record.json; results.json, junit.xml and index.html.
    only:         patterns; tasks whose name or model matches one.
    on:           the address of a Ray cluster; "local" for a Ray that is started here; None: processes of this machine.
    jobs:         tasks at a time, of these; None: as many as there are cores for.
    cache:        the folder of the cache; None: the user's.
    no_cache:     neither read nor write it.
    retry_failed: do again what was refused, too.
    progress:     gets a line for each task that has ended, and each warning.

    A task that fails raises nothing: `passed`, `statuses` and `records()` of the result say what came of it. Ctrl-C ends
    it in order, and `signal` says so.

    >>> import trtsmith
    >>> done = trtsmith.batch("zoo.toml", "results", jobs=1, no_cache=True)
    >>> done.passed, dict(done.statuses)
    (True, {'model': <TaskStatus.AGREE: 'agree'>})

    Raises UsageError: the zoo, the folder or the cluster cannot be used.
    """
    request = BatchRequest(
        tasks=read_zoo(Path(zoo), zoo_commands()),
        folder=Path(output),
        title=Path(zoo).name,
        only=texts_of(only),
        on=on,
        jobs=jobs,
        cache=None if no_cache else path_of(cache) or default_folder(os.environ, Path.home()),
        retry_failed=retry_failed,
    )
    lines = ProgressLines(progress or silent)
    return run_batch(request, lines, lines.warn)
