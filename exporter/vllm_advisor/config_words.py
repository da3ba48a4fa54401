"""What is wrong with a value in plain words, with no password in it."""

from __future__ import annotations

from pydantic_core import ErrorDetails

from vllm_advisor.addresses import without_passwords

__all__ = ["expectation"]

_EXPECTED = {
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "string_type": "text",
    "path_type": "a path",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_pattern_mismatch": "letters, digits, . _ -, with a letter or digit first",
    "greater_than": "a number over {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number under {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
}
"""By pydantic's name for the problem."""

_KINDS = {dict: "a mapping", list: "a list", tuple: "a list", str: "text", type(None): "nothing"}
_OF_ANOTHER_KIND = {"tuple_type", "dict_type", "model_type", "string_type"}
_SECRET = {"headers", "basic_auth_users"}


def expectation(problem: ErrorDetails) -> str:
    """Say what was expected where pydantic found a problem; users and passwords in it are left out."""
    match problem["type"]:
        case "extra_forbidden":
            return "unknown key"
        case "missing":
            return "is required"
        case "too_short":
            return "expected a list with at least one entry"
        case "string_too_short":
            return "must not be empty"
        case "value_error":
            return without_passwords(str(problem["ctx"]["error"]))
    words = _EXPECTED.get(problem["type"])
    if words is None:
        expected = str(problem["msg"]).removeprefix("Input should be ")
    else:
        expected = words.format_map(problem.get("ctx", {}))
    return without_passwords(f"expected {expected}, not {_shown(problem)}")


def _shown(problem: ErrorDetails) -> str:
    """Write what was given, where it is one word and no secret; else only its kind."""
    value = problem["input"]
    is_secret = not _SECRET.isdisjoint(problem["loc"])
    is_plain = isinstance(value, str | int | float) and not is_secret
    if is_plain and not (isinstance(value, str) and problem["type"] in _OF_ANOTHER_KIND):
        return repr(value)
    return _KINDS.get(type(value), "this")
