"""Evidence over a restart: one SQLite file, written in one transaction each time.

A nested state is kept as rows, one for each value within its mappings, so that only what changed is written.
A process killed at any moment leaves the state of the last `Store.save` that returned; a machine that loses
power may leave that of an earlier one, whole.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from vllm_advisor.errors import InputError

__all__ = ["Store"]

_VERSION = 1
_LEVELS = 6
"""How deep mappings are taken apart."""
_BUSY_SECONDS = 1.0
_SCHEMA = "CREATE TABLE entries (path TEXT PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL)"

_Path = tuple[str, ...]


class Store:
    """One daemon's state on disk.

    Args:
        folder: where; made if it is not there.

    Raises:
        InputError: the folder cannot be written to, or another process uses it.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "state.db"
        self.set_aside: Path | None = None
        """The file found damaged, or of a later version, under its new name."""
        self._written: dict[_Path, tuple[Any, bytes | None]] = {}
        """Each value as it was when written or loaded, and its digest where that was needed."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be made: {error.strerror}", path=folder, key="storage.path") from error
        self._connection = self._opened()

    def load(self) -> dict[str, Any] | None:
        """Return the state last saved, None without one; a damaged file is set aside and named."""
        try:
            rows = self._connection.execute("SELECT path, value, checksum FROM entries").fetchall()
            entries = {_path(path): _value(path, value, checksum) for path, value, checksum in rows}
        except (sqlite3.DatabaseError, ValueError):
            self._put_aside()
            return None
        self._written = {path: (value, None) for path, value in entries.items()}
        return _nested(entries) if entries else None

    def save(self, state: Mapping[str, Any]) -> None:
        """Write what changed since the last time, all or nothing.

        Args:
            state: plain JSON values. A value that is the same object as the last time, or as loaded, is
                taken as unchanged.

        Raises:
            OSError: it cannot be written, for want of space for example; what was saved before stands.
        """
        entries = dict(_entries(state))
        changed = list(self._changed(entries))
        gone = self._written.keys() - entries.keys()
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(
                    "DELETE FROM entries WHERE path = ?", ((_key(path),) for path in gone)
                )
                self._connection.executemany(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)",
                    ((_key(path), value, _checksum(_key(path), value)) for path, _, value in changed),
                )
        except sqlite3.Error as error:
            raise OSError(f"{self.file}: {error}") from error
        for path in gone:
            del self._written[path]
        self._written.update({path: (held, _digest(value)) for path, held, value in changed})

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _changed(self, entries: Mapping[_Path, Any]) -> Iterator[tuple[_Path, Any, bytes]]:
        for path, value in entries.items():
            held, digest = self._written.get(path, (None, None))
            if held is value and isinstance(value, dict | list):
                continue
            encoded = msgspec.json.encode(value)
            if _digest(encoded) != digest:
                yield path, value, encoded
            else:
                self._written[path] = value, digest

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
        except sqlite3.OperationalError as error:
            connection.close()
            problem = (
                "is in use by another process" if "locked" in str(error) else f"cannot be opened: {error}"
            )
            raise InputError(problem, path=self.file, key="storage.path") from error
        except (sqlite3.DatabaseError, ValueError):
            connection.close()
            self._move_aside()
            return self._opened()
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > _VERSION:
                raise ValueError(f"of version {version}")
            if version == 0:
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _put_aside(self) -> None:
        self._connection.close()
        self._move_aside()
        self._connection = self._opened()

    def _move_aside(self) -> None:
        aside = next(
            name
            for number in range(1, 1_000_000)
            if not (name := self.file.with_name(f"{self.file.name}.damaged-{number}")).exists()
        )
        self.file.rename(aside)
        for suffix in ("-wal", "-shm"):
            self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)
        self.set_aside = aside


def _entries(value: Mapping[str, Any], path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict) and inner and len(path) + 1 < _LEVELS:
            yield from _entries(inner, (*path, str(key)))
        else:
            yield (*path, str(key)), inner


def _nested(entries: Mapping[_Path, Any]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for path, value in entries.items():
        inner = state
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = value
    return state


def _key(path: _Path) -> str:
    return msgspec.json.encode(path).decode()


def _path(key: str) -> _Path:
    return msgspec.json.decode(key, type=_Path)


def _value(key: str, encoded: bytes, checksum: int) -> Any:  # noqa: ANN401 - any JSON value
    if _checksum(key, encoded) != checksum:
        raise ValueError(f"the value at {key} is damaged")
    return msgspec.json.decode(encoded)


def _checksum(key: str, encoded: bytes) -> int:
    return zlib.crc32(encoded, zlib.crc32(key.encode()))


def _digest(encoded: bytes) -> bytes:
    return blake2b(encoded, digest_size=16).digest()
