"""YAML in, one frozen model out, every problem named with its line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vllm_advisor.addresses import without_passwords
from vllm_advisor.config_words import expectation
from vllm_advisor.errors import InputError

__all__ = ["load_file", "problem_at", "read_file"]

Model = TypeVar("Model", bound=BaseModel)
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Takes what looks like a date for text, so that it is told as such at its line."""


def _as_text(_loader: _Loader, node: yaml.Node) -> str:
    return str(node.value)


_Loader.add_constructor(_TIMESTAMP, _as_text)


def load_file(path: Path, model: type[Model]) -> Model:
    """Read a YAML file into a model.

    Raises:
        InputError: the first problem found, with its line and key.
    """
    read, problems = read_file(path, model)
    if read is None:
        raise problems[0]
    return read


def read_file(path: Path, model: type[Model]) -> tuple[Model | None, list[InputError]]:
    """Read a YAML file into a model, or name every problem by line; relative paths start from its folder."""
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        return None, [InputError(f"cannot be read: {error.strerror}", path=path)]
    except UnicodeDecodeError:
        return None, [InputError("is not UTF-8 text", path=path)]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        return None, [InputError(f"is not YAML: {error.problem}", path=path, line=line)]
    except (yaml.YAMLError, ValueError) as error:  # a number of thousands of digits
        return None, [InputError(f"is not YAML: {str(error).splitlines()[0]}", path=path)]
    except RecursionError:
        return None, [InputError("is not YAML of a sensible depth", path=path)]
    if not isinstance(root, yaml.MappingNode):
        return None, [InputError("expected a mapping", path=path, line=1)]
    problems = [
        InputError("given twice", path=path, line=line, key=without_passwords(key))
        for key, line in _repeated_keys(root)
    ]
    read = None
    try:
        read = model.model_validate(document, context={"folder": path.parent})
    except ValidationError as error:
        problems += [_problem_at(path, root, one["loc"], expectation(one)) for one in _causes(error)]
    problems.sort(key=lambda problem: problem.line or 0)
    return (None if problems else read), problems


def problem_at(path: Path, location: Sequence[int | str], problem: str) -> InputError:
    """Return a problem with a value of a YAML file that was read before."""
    root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    return _problem_at(path, root, location, problem)


def _causes(error: ValidationError) -> list[ErrorDetails]:
    """Drop what only follows from another problem deeper inside the same value."""
    problems = error.errors()
    places = [problem["loc"] for problem in problems]
    return [
        problem
        for problem, place in zip(problems, places, strict=True)
        if not any(other[: len(place)] == place and other != place for other in places)
    ]


def _problem_at(
    path: Path, root: yaml.Node | None, location: Sequence[int | str], problem: str
) -> InputError:
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    line = _line_of(root, location)
    return InputError(problem, path=path, line=line, key=without_passwords(key) or None)


def _line_of(root: yaml.Node | None, location: Sequence[int | str]) -> int:
    node, line = root, root.start_mark.line + 1 if root else 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None:
                return line
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line


def _repeated_keys(root: yaml.Node) -> list[tuple[str, int]]:
    """Return keys that a mapping has twice, with their lines; what an alias repeats is looked at once."""
    repeated: list[tuple[str, int]] = []
    nodes, met = [root], {id(root)}
    while nodes:
        node = nodes.pop()
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            repeated += _given_again([key for key, _ in node.value])
            inner = [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            inner = node.value
        nodes += [one for one in inner if id(one) not in met]
        met |= {id(one) for one in inner}
    return repeated


def _given_again(keys: list[yaml.Node]) -> list[tuple[str, int]]:
    seen: set[str] = set()
    repeated = []
    for key in keys:
        if isinstance(key, yaml.ScalarNode):
            if key.value in seen:
                repeated.append((key.value, key.start_mark.line + 1))
            seen.add(key.value)
    return repeated
