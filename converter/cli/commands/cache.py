"""trtsmith cache: lists or prunes the cache of batch conversions."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from trtsmith.converter.base.errors import EXIT_FAILED, EXIT_OK, UsageError
from trtsmith.converter.batch.amounts import age_text, parse_age, parse_size, size_text
from trtsmith.converter.batch.store import (
    VARIABLE,
    Contents,
    Pruned,
    PruneOrder,
    default_folder,
    prune,
    read_contents,
)
from trtsmith.converter.cli.console import Console, one_line, table
from trtsmith.converter.cli.parsing.command_parser import common_options
from trtsmith.importers.problem import Problem

DESCRIPTION = "The cache of `trtsmith batch`, which keeps conversions by the content of all their inputs."

_PRUNING = """examples:
  trtsmith cache prune
  trtsmith cache prune --larger-than 20GiB
  trtsmith cache prune --older-than 30 --dry-run
"""

_KEY = 12
"""Digits of a key that the table shows; --json has all 64."""

T = TypeVar("T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list",
        parents=[common_options()],
        help="list the entries, most recently used first",
        epilog="examples:\n  trtsmith cache list\n  trtsmith cache list --json",
    )
    _add_folder(listing)
    listing.add_argument("--json", action="store_true", help="print it as JSON, with keys and files in full")
    listing.set_defaults(run=show)
    pruning = actions.add_parser(
        "prune",
        parents=[common_options()],
        help="remove unusable entries, and others by option",
        description="Removes damaged entries, files without an entry and stale temporary files, and the entries that "
        "the options select. Running batches may continue: they convert removed entries again.",
        epilog=_PRUNING,
    )
    _add_folder(pruning)
    which = pruning.add_mutually_exclusive_group()
    which.add_argument(
        "--larger-than",
        type=_amount(parse_size),
        metavar="SIZE",
        help="shrink the cache to this size, such as 20GiB or 500MB; removes the least recently used entries first",
    )
    which.add_argument(
        "--older-than",
        type=_amount(parse_age),
        metavar="DAYS",
        help="remove entries that were not used for this long, such as 30 (days), 12h or 4w",
    )
    which.add_argument("--all", action="store_true", help="remove everything")
    which.add_argument("--damaged", action="store_true", help="read every file, and remove damaged ones")
    pruning.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    pruning.set_defaults(run=clear)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help=f"the cache; default: ${VARIABLE}, else trtsmith/batch in $XDG_CACHE_HOME or ~/.cache",
    )


def _amount(parse: Callable[[str], T]) -> Callable[[str], T]:
    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def show(options: argparse.Namespace, console: Console) -> int:
    folder = _folder(options.cache)
    contents = _usable(folder, lambda: read_contents(folder))
    for text in contents.damaged.values():
        console.say(f"warning: a damaged entry, which `trtsmith cache prune` removes: {text}")
    if options.json:
        console.json(_document(folder, contents))
        return EXIT_OK
    now = time.time()
    rows = [
        (
            key[:_KEY],
            entry.record.model,
            " ".join(f"{axis}={value}" for axis, value in entry.record.variant.items()),
            entry.record.status.value,
            size_text(sum(facts.bytes for facts in entry.record.files.values())),
            age_text(now - entry.used),
        )
        for key, entry in _last_used_first(contents)
    ]
    if rows:
        console.result(table([("key", "model", "variant", "status", "size", "used"), *rows]))
    console.result(f"{_count(len(rows), 'conversion')}, {size_text(contents.bytes)} in {folder}")
    return EXIT_OK


def clear(options: argparse.Namespace, console: Console) -> int:
    folder = _folder(options.cache)
    order = PruneOrder(
        larger_than=options.larger_than,
        older_than_s=options.older_than,
        everything=options.all,
        damaged=options.damaged,
        dry_run=options.dry_run,
    )
    done = _usable(folder, lambda: prune(folder, order))
    for text in done.damaged:
        console.say(f"damaged: {text}")
    console.result(_summary(done, folder, dry_run=options.dry_run))
    if done.failed:
        first, others = one_line(done.failed[0]), len(done.failed) - 1
        more = f"; nor can {others} more" if others else ""
        fix = "run it as the user who owns them, or change its permissions"
        console.problems(
            [
                Problem(
                    f"it cannot be removed: {first}{more}",
                    str(folder),
                    "files and folders that you may change",
                    fix,
                )
            ]
        )
    return EXIT_FAILED if done.failed else EXIT_OK


def _summary(done: Pruned, folder: Path, *, dry_run: bool) -> str:
    went = "would be removed" if dry_run else "removed"
    stay = "would stay" if dry_run else "stay"
    parts = (
        _count(done.entries, "conversion"),
        _count(done.blobs, "file"),
        _count(done.temporary, "temporary file"),
        size_text(done.bytes),
    )
    kept = f"{_count(done.kept_entries, 'conversion')}, {size_text(done.kept_bytes)} in {folder}"
    return f"{went}: {', '.join(parts)}\n{stay}: {kept}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _last_used_first(contents: Contents) -> list[tuple[str, Any]]:
    return sorted(contents.entries.items(), key=lambda item: (-item[1].used, item[0]))


def _document(folder: Path, contents: Contents) -> dict[str, Any]:
    return {
        "schema": 1,
        "cache": str(folder),
        "bytes": contents.bytes,
        "entries": [
            {
                "key": key,
                "name": entry.record.name,
                "model": entry.record.model,
                "variant": dict(entry.record.variant),
                "status": entry.record.status.value,
                "bytes": sum(facts.bytes for facts in entry.record.files.values()),
                "used": datetime.fromtimestamp(entry.used, timezone.utc).isoformat(timespec="seconds"),
                "files": {
                    name: {"sha256": facts.sha256, "bytes": facts.bytes}
                    for name, facts in entry.record.files.items()
                },
            }
            for key, entry in _last_used_first(contents)
        ],
        "damaged": list(contents.damaged.values()),
    }


def _folder(given: Path | None) -> Path:
    """The folder of the cache. Raises UsageError if it was named but does not exist; the default may be missing."""
    where, fix = f"--cache {given}", "correct the path, or remove the flag for the default"
    folder = given
    if folder is None:
        where, fix = f"${VARIABLE} or the default", f"set {VARIABLE} to the folder of the cache"
        try:
            folder = default_folder(os.environ, Path.home())
        except RuntimeError as error:
            raise UsageError(f"there is no cache folder: {error}", where, "a folder", fix) from error
    if folder.is_dir() or (given is None and not os.path.lexists(folder)):
        return folder
    what = "is a file, not a folder" if folder.exists() else "does not exist"
    raise UsageError(f"the cache {folder} {what}", where, "the folder that `trtsmith batch` uses", fix)


def _usable(folder: Path, work: Callable[[], T]) -> T:
    try:
        return work()
    except OSError as error:
        raise UsageError(
            f"the cache cannot be used: {error.strerror or error}",
            str(error.filename or folder),
            "a folder, and files in it, that you may read",
            "change its permissions, or name another cache with --cache",
        ) from error
