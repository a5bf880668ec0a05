"""Line numbers of tables and keys in TOML, as tomllib reads it; and text written as TOML."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from trtsmith.converter.batch.zoo.zoo_file import (
    Given,
    KeyPath,
    ZooFile,
    key_lines,
    toml_comment,
    toml_key,
    toml_string,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

AWKWARD = {
    "comments": "# a = 1\n\na = 1 # b = 2\n#[t]\n[t] # c = 3\nd = 4",
    "dotted keys": "a.b.c = 1\na.b.d = 2\n'a'.\"e\" . f = 3\n[a.g]\nh.i = 4\n",
    "quoted keys": '"a.b" = 1\n"c \\" d" = 2\n\'e " f\' = 3\n"\\u0041\\t" = 4\n"" = 5\n"x = y" = 6\n',
    "strings that look like keys": 'a = "b = 1"\nc = \'[d]\'\ne = "#"\n',
    "multi-line strings": 'a = """\n[[model]]\nb = 1\n\\"""\n"""\nc = 1\n',
    "arrays": 'a = [\n  1, # one ]\n  [2,\n 3],\n  ["b"]\n]\nc = []\n',
    "inline tables": 'a = { b = 1, c.d = "}", e = { f = [ { g = 2 } ] } }\nh = {}\n',
    "arrays of tables": "[[m]]\na = 1\n[[m]]\n\n[m.s]\nb = 2\n[[m.n]]\nc = 3\n[[m.n]]\n[[m]]\nd = 4\n",
    "tables out of order": "[a.b]\nc = 1\n[d]\n[a]\ne = 2\n[a.f]\n",
    "windows": "a = 1\r\n[t]\r\nb = 2\r\n",
    "nothing": "\n \t\n# only a comment",
}


def lines_of(text: str) -> dict[KeyPath, int]:
    return key_lines(text, tomllib.loads(text))


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
def test_nothing_has_a_line_that_the_document_has_not(text: str) -> None:
    document = tomllib.loads(text)
    for keys in key_lines(text, document):
        found: Any = document
        for key in keys:
            found = found[key]


@pytest.mark.parametrize(
    ("text", "keys", "line"),
    [
        ("comments", ("t", "d"), 6),
        ("dotted keys", ("a", "e", "f"), 3),
        ("dotted keys", ("a", "g", "h", "i"), 5),
        ("quoted keys", ("A\t",), 4),
        ("quoted keys", ("x = y",), 1),  # no line of its own
        ("multi-line strings", ("c",), 6),
        ("arrays", ("a", 1, 0), 1),
        ("arrays", ("c",), 7),
        ("inline tables", ("a", "e", "f", 0, "g"), 1),
        ("arrays of tables", ("m", 0, "a"), 2),
        ("arrays of tables", ("m", 1, "s", "b"), 6),
        ("arrays of tables", ("m", 1, "n", 0, "c"), 8),
        ("arrays of tables", ("m", 1, "n", 1), 9),
        ("arrays of tables", ("m", 2, "d"), 11),
        ("tables out of order", ("a", "e"), 5),
        ("windows", ("t", "b"), 3),
        ("nothing", ("a",), 1),
    ],
)
def test_lines(text: str, keys: KeyPath, line: int) -> None:
    file = ZooFile(Path(), Path(), lines_of(AWKWARD[text]))
    assert Given(file, keys, "", None).line == line


def test_toml_text() -> None:
    assert toml_string('a"\\\n\x7f\u00e9') == '"a\\"\\\\\\n\\U0000007F\u00e9"'
    assert (toml_key("a-b_1"), toml_key("a.b"), toml_key("")) == ("a-b_1", '"a.b"', '""')
    assert toml_comment("a\n[[model]]\r\x1b") == "# a\\n[[model]]\\r\\x1b"
    with pytest.raises(UnicodeEncodeError):
        toml_string("\udcff")
