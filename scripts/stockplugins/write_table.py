"""Writes the table of TensorRT's own plugins, from a clone of NVIDIA's repository.

    git clone --bare https://github.com/NVIDIA/TensorRT
    python scripts/stockplugins/write_table.py TensorRT.git           # writes importers/declared/stock_plugins.json
    python scripts/stockplugins/write_table.py TensorRT.git --check   # exit code 1 if the table would change

Of every release from 8.6 on, the newest commit of its tags is read with `git archive`: what the creators that
libnvinfer_plugin registers say of themselves. The table holds names, versions, fields and interfaces, and in which releases
each is so; none of NVIDIA's code.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

OLDEST = (8, 6)
TABLE = ROOT / "importers" / "declared" / "stock_plugins.json"
_TAG = re.compile(r"v(\d+)\.(\d+)(?:\.(\d+))?")
_SUFFIXES = (".h", ".hpp", ".cpp", ".cu")
_LARGEST = 200_000
"""Bytes of a file that is read; larger ones hold compiled kernels."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repository", type=Path, metavar="REPOSITORY", help="a clone, bare or not")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 for another table")
    options = parser.parse_args(argv)
    text = json.dumps(table(options.repository), indent=1) + "\n"
    if options.check:
        same = TABLE.is_file() and TABLE.read_text(encoding="utf-8") == text
        print("the table is up to date" if same else f"{TABLE} is not what the repository says")
        return 0 if same else 1
    TABLE.write_text(text, encoding="utf-8")
    print(f"{TABLE}: {len(json.loads(text)['plugins'])} entries")
    return 0


def table(repository: Path) -> dict[str, Any]:
    """{"source", "releases": {"10.0": commit}, "plugins": [creator with "releases"]}."""
    from stockplugins.creator_sources import PluginSources

    tags = newest_tags(_git(repository, "tag").split())
    entries: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for release, tag in tags.items():
        read = PluginSources(sources(repository, tag))
        for kind in read.absent():
            print(f"{release}: {kind} is registered, and not in the sources", file=sys.stderr)
        for creator in read.creators():
            said = asdict(creator)
            entries.setdefault(json.dumps(said), (said, []))[1].append(release)
        print(f"{release}: {tag}", file=sys.stderr)
    plugins = [said | {"releases": releases} for said, releases in entries.values()]
    plugins.sort(key=lambda one: (one["name"], one["version"], tags_order(one["releases"][0])))
    commits = {
        release: _git(repository, "rev-parse", f"{tag}^{{commit}}").strip() for release, tag in tags.items()
    }
    source = "the plugin creators in the sources of NVIDIA/TensorRT, by release tag (Apache-2.0)"
    return {"source": source, "releases": commits, "plugins": plugins}


def newest_tags(tags: Sequence[str]) -> dict[str, str]:
    """The tag of each release's last patch: {"10.0": "v10.0.1"}, oldest release first."""
    newest: dict[tuple[int, int], tuple[int, str]] = {}
    for tag in tags:
        found = _TAG.fullmatch(tag)
        if found and (int(found[1]), int(found[2])) >= OLDEST:
            release, patch = (int(found[1]), int(found[2])), int(found[3] or 0)
            newest[release] = max(newest.get(release, (-1, "")), (patch, tag))
    return {f"{major}.{minor}": newest[major, minor][1] for major, minor in sorted(newest)}


def tags_order(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def sources(repository: Path, tag: str) -> Mapping[str, str]:
    """The sources of libnvinfer_plugin at a tag, by path below `plugin`, without the lean runtime's."""
    packed = subprocess.run(
        ["git", "-C", str(repository), "archive", tag, "plugin"], check=True, capture_output=True
    ).stdout
    files = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            path = member.name.removeprefix("plugin/")
            wanted = path.endswith(_SUFFIXES) and not path.startswith("vc/") and member.size < _LARGEST
            content = archive.extractfile(member) if wanted else None
            if content is not None:
                files[path] = content.read().decode("utf-8", "replace")
    return files


def _git(repository: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(repository), *words], check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
