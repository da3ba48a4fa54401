"""The files that a configuration names: what `check-config` says of those that cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel

from vllm_advisor.config import AdvisorConfig, DeploymentConfig
from vllm_advisor.config_file import problem_at
from vllm_advisor.errors import InputError
from vllm_advisor.sources.model_config import read_model_config
from vllm_advisor.sources.startup_log import read_startup_log
from vllm_advisor.sources.sweep_file import read_sweep

__all__ = ["file_problems"]

Keys = tuple[str | int, ...]
"""Where a value stands in a deployment."""


def file_problems(path: Path, config: AdvisorConfig) -> list[InputError]:
    """Return every file that a configuration names and that cannot be read, at the line that names it."""
    problems = []
    for index, deployment in enumerate(config.deployments):
        for keys, file, read in _files(deployment):
            try:
                read(file)
            except InputError as error:
                problems.append(problem_at(path, ("deployments", index, *keys), str(error)))
    return sorted(problems, key=lambda problem: problem.line or 0)


def _files(
    deployment: DeploymentConfig,
) -> Iterator[tuple[Keys, Path, Callable[[Path], object]]]:
    engine = deployment.engine
    if engine.model_config_path:
        yield ("engine", "model_config"), engine.model_config_path, read_model_config
    if engine.startup_log_path:
        yield ("engine", "startup_log"), engine.startup_log_path, read_startup_log
    if deployment.sweep_path:
        yield ("sweep",), deployment.sweep_path, read_sweep
    for keys, file in _secrets_and_certificates(deployment, ()):
        yield keys, file, _read


def _secrets_and_certificates(section: BaseModel, place: Keys) -> Iterator[tuple[Keys, Path]]:
    """Yield every file under a key such as ``password_file`` or ``ca_file``, however deep."""
    for name, field in type(section).model_fields.items():
        key, value = field.alias or name, getattr(section, name)
        if isinstance(value, Path) and key.endswith("_file"):
            yield (*place, key), value
        for index, one in enumerate(value) if isinstance(value, tuple) else [(None, value)]:
            if isinstance(one, BaseModel):
                yield from _secrets_and_certificates(one, (*place, key, *(() if index is None else (index,))))


def _read(file: Path) -> None:
    try:
        file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file) from error
