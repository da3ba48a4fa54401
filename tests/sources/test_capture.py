"""Captures under any name, packed or not, and from a pipe."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_advisor.errors import InputError
from vllm_advisor.sources.capture import read_captures

LINES = b"".join(
    json.dumps({"ts": at, "target": "http://vllm-0:8000/metrics", "text": f"a {at}\n"}).encode() + b"\n"
    for at in (1.0, 2.5)
)


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.jsonl.gz", "pages"])
@pytest.mark.parametrize("content", [LINES, gzip.compress(LINES, mtime=0)])
def test_a_capture_is_read_by_what_it_holds(name: str, content: bytes, tmp_path: Path) -> None:
    """The name does not matter: what begins as gzip is unpacked."""
    path = tmp_path / name
    path.write_bytes(content)
    pages = list(read_captures([path]))

    assert [(page.time_seconds, page.text) for page in pages] == [(1.0, b"a 1.0\n"), (2.5, b"a 2.5\n")]


@pytest.mark.parametrize(
    "content",
    [gzip.compress(LINES, mtime=0)[:-9], gzip.compress(LINES, mtime=0)[:10] + b"\xff" * 99, b"\x1f\x8bno"],
)
def test_a_broken_archive_is_one_line(content: bytes, tmp_path: Path) -> None:
    """An archive cut short, or none at all, is named."""
    path = tmp_path / "pages.jsonl.gz"
    path.write_bytes(content)

    with pytest.raises(InputError, match="cannot be read: ") as caught:
        list(read_captures([path]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [LINES, gzip.compress(LINES, mtime=0)])
def test_a_capture_comes_through_a_pipe(content: bytes) -> None:
    """A dash stands for standard input."""
    program = (
        "from pathlib import Path\n"
        "from vllm_advisor.sources.capture import read_captures\n"
        "print([page.time_seconds for page in read_captures([Path('-')])])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, check=True)

    assert done.stdout == b"[1.0, 2.5]\n"


@pytest.mark.parametrize("time", ["NaN", "Infinity", "1e400", "-5", "true", '"1.0"', "1764547200000", "null"])
def test_a_time_that_is_none_names_its_line(time: str, tmp_path: Path) -> None:
    """Also one in milliseconds, which would set every page of the capture thousands of years apart."""
    path = tmp_path / "pages.jsonl"
    path.write_bytes(LINES + f'{{"ts": {time}, "text": "a 1"}}\n'.encode())

    with pytest.raises(InputError, match=r"pages\.jsonl:3: expected \{\"ts\": <Unix seconds>"):
        list(read_captures([path]))
