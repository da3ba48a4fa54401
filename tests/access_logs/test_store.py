"""State on disk: whole or as before, never a traceback, and only what changed is written."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vllm_advisor.errors import InputError
from vllm_advisor.store import Store

NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
STATES = st.dictionaries(st.text(max_size=8), JSON, min_size=1, max_size=5)


@given(st.lists(STATES, min_size=1, max_size=4))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_was_saved_last_is_loaded(tmp_path: Path, states: list[dict[str, object]]) -> None:
    """Any JSON value comes back, whatever was there before."""
    folder = tmp_path / str(time.monotonic_ns())
    store = Store(folder)
    for state in states:
        store.save(state)
    store.close()
    again = Store(folder)
    assert again.load() == states[-1]
    again.close()


def test_nothing_saved_is_none(tmp_path: Path) -> None:
    """A new folder is made, and holds no state."""
    store = Store(tmp_path / "deep" / "data")
    assert store.load() is None
    assert store.set_aside is None
    store.close()


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    """A value that is the same, as an object or in what it says, makes no row anew."""
    store = Store(tmp_path)
    slots = {str(number): [number, "x" * 1000] for number in range(100)}
    store.save({"chat": {"lengths": slots, "head": {"late": 1}}})
    written = store._connection.total_changes
    store.save({"chat": {"lengths": {**slots, "7": [7, "y"]}, "head": {"late": 1}}})
    assert store._connection.total_changes == written + 1
    remaining = {key: value for key, value in slots.items() if key != "7"}
    store.save({"chat": {"lengths": remaining, "head": {"late": 1}}})
    assert store.load() == {"chat": {"lengths": remaining, "head": {"late": 1}}}
    store.close()


def test_what_was_loaded_is_not_written_again(tmp_path: Path) -> None:
    """After a restart only values that are other objects than the loaded ones are rows anew."""
    store = Store(tmp_path)
    store.save({"slots": {str(number): [number] for number in range(100)}})
    store.close()
    again = Store(tmp_path)
    state = again.load()
    assert state is not None
    written = again._connection.total_changes
    again.save({"slots": state["slots"] | {"7": [8]}})
    assert again._connection.total_changes == written + 1
    assert again.load() == {"slots": {str(number): [number] for number in range(100)} | {"7": [8]}}
    again.close()


@pytest.mark.parametrize("damage", ["garbage", "empty", "middle", "cut", "value", "later version"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, damage: str) -> None:
    """The damaged file is kept under another name, the store starts empty, and saving works."""
    store = Store(tmp_path)
    store.save({str(number): ["z" * 500] for number in range(200)})
    store.close()
    file = tmp_path / "state.db"
    content = bytearray(file.read_bytes())
    match damage:
        case "garbage":
            file.write_bytes(b"this is no database at all" * 100)
        case "empty":
            file.write_bytes(b"")
        case "middle":
            content[len(content) // 2 : len(content) // 2 + 4000] = b"\xff" * 4000
            file.write_bytes(content)
        case "cut":
            file.write_bytes(content[: len(content) // 2])
        case "value":
            file.write_bytes(bytes(content).replace(b"zzzzzzzz", b"zzzzyzzz", 1))
        case "later version":
            with sqlite3.connect(file) as connection:
                connection.execute("PRAGMA user_version = 99")
            connection.close()
    again = Store(tmp_path)
    assert again.load() is None
    if damage != "empty":
        assert again.set_aside is not None
        assert again.set_aside.exists()
    again.save({"a": 1})
    assert again.load() == {"a": 1}
    again.close()


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    """The second is told, in one line, instead of both writing."""
    store = Store(tmp_path)
    store.save({"a": 1})
    code = "import sys, pathlib; from vllm_advisor.store import Store; Store(pathlib.Path(sys.argv[1]))"
    second = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "is in use by another process" in second.stderr.splitlines()[-1]
    store.close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A file in the way is a wrong configuration."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"storage\.path: cannot be made"):
        Store(tmp_path / "file" / "data")


def test_a_full_disk_leaves_what_was_saved(tmp_path: Path) -> None:
    """What cannot be written raises OSError, and the state before stands."""
    store = Store(tmp_path)
    store.save({"a": ["x" * 100]})
    store._connection.execute("PRAGMA max_page_count = 4")
    with pytest.raises(OSError, match="full"):
        store.save({"a": ["y" * 1_000_000]})
    assert store.load() == {"a": ["x" * 100]}
    store._connection.execute("PRAGMA max_page_count = 100000")
    store.save({"a": ["y" * 1_000_000]})
    assert store.load() == {"a": ["y" * 1_000_000]}
    store.close()


def test_killed_while_saving_the_state_is_one_that_was_saved(tmp_path: Path) -> None:
    """Two values that are always saved alike are alike after any kill."""
    for _ in range(12):
        pid = os.fork()
        if pid == 0:
            try:
                store = Store(tmp_path)
                number = (store.load() or {"a": [0]})["a"][0]
                while True:
                    number += 1
                    store.save({"a": [number], "filler": ["x" * 20_000, number], "b": [number]})
            finally:
                os._exit(1)
        time.sleep(0.04)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    store = Store(tmp_path)
    state = store.load()
    assert state is not None
    assert state["a"] == state["b"] == [state["filler"][1]]
    assert state["a"][0] > 12
    assert json.dumps(state)
    store.close()
