"""Paths in a configuration: relative ones start from its file's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

from vllm_advisor.config_fields import Name

__all__ = ["FilePath", "GlobPattern"]


def _beside_the_file(path: Path, info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / path


FilePath = Annotated[Path, AfterValidator(_beside_the_file)]
"""A path; a relative one starts from the configuration file's folder."""


def _glob_beside_the_file(pattern: str, info: ValidationInfo) -> str:
    return str((info.context or {}).get("folder", Path()) / pattern)


GlobPattern = Annotated[Name, AfterValidator(_glob_beside_the_file)]
"""A glob; a relative one starts from the configuration file's folder."""
