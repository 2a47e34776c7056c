"""Errors of config models, in the terms of the pipeline file instead of pydantic's."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from headrace.errors import ConfigError, HeadraceError
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails, InitErrorDetails

#: Keys and indexes from the top of a document to a value.
Location = tuple[Any, ...]

#: Parts of a pydantic location that are not in the file.
_TAG = re.compile(r"(?:function-\w+|tagged-union|union|nullable|literal)\[.*\]|\[key\]|constrained-\w+")
#: The same for a value of one of several types.
_TYPE = re.compile(r"str|int|float|bool|(?:list|dict|tuple)\[.*\]")


class PlacedError(ConfigError):
    """Error of a value of the pipeline file. ``loc``: its location."""

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None, loc: Location = ()) -> None:
        super().__init__(what, where=where or ".".join(map(str, loc)), fix=fix)
        self.loc = loc


def as_config_error(
    error: ValidationError, where: Callable[[Location], str], prefix: Location = (), known: Collection[Location] = ()
) -> ConfigError:
    """Return a pydantic error as a ConfigError; several problems become one message.

    ``where`` describes a location; ``prefix``: the location of the model; ``known``: locations that the document has.
    """
    problems = list_problems(error, where, prefix, known)
    return problems[0] if len(problems) == 1 else ConfigError(join_problems(problems))


def list_problems(
    error: ValidationError, where: Callable[[Location], str], prefix: Location = (), known: Collection[Location] = ()
) -> list[ConfigError]:
    """Return the problems of a pydantic error, one for each location."""
    by_place: dict[str | None, list[ConfigError]] = {}
    for item in error.errors(include_url=False):
        problem = _describe_problem(item, where, prefix, known)
        by_place.setdefault(problem.where, []).append(problem)
    return [errors[0] if len(errors) == 1 else _join_alternatives(errors) for errors in by_place.values()]


def join_problems(problems: Sequence[HeadraceError]) -> str:
    """Return the message of several problems."""
    lines = (f"  {str(problem).replace(chr(10), chr(10) + '  ')}" for problem in problems)
    return "\n".join([f"{len(problems)} problems", *lines])


def find_other_errors(make: Callable[[Any], object], data: Mapping[Any, Any]) -> list[InitErrorDetails]:
    """Return the errors of a block without its wrong keys.

    Missing keys and errors of the whole block are left out: a misspelled key may be their cause.
    """
    from pydantic import ValidationError

    try:
        make(data)
    except ValidationError as error:
        return [_to_details(item) for item in error.errors() if item["loc"] and item["type"] != "missing"]
    return []


def _to_details(item: ErrorDetails) -> InitErrorDetails:
    """Return an error of a ValidationError in the form from which another one is made."""
    from pydantic_core import InitErrorDetails, PydanticCustomError
    from pydantic_core.core_schema import ErrorType

    kind: Any = item["type"]
    if kind not in get_args(ErrorType):
        kind = PydanticCustomError(kind, item["msg"], item.get("ctx", {}))
    return InitErrorDetails(type=kind, loc=item["loc"], input=item["input"], ctx=item.get("ctx", {}))


def _describe_problem(
    item: Any, where: Callable[[Location], str], prefix: Location, known: Collection[Location]
) -> ConfigError:
    loc = prefix
    for part in item["loc"]:
        is_type = isinstance(part, str) and _TYPE.fullmatch(part) and (*loc, part) not in known
        if not (is_type or (isinstance(part, str) and _TAG.fullmatch(part))):
            loc = (*loc, part)
    if item["type"] == "unknown_key":
        key, keys = item["ctx"]["key"], item["ctx"]["known"]
        return ConfigError(f"unknown key {key!r}", where=where((*loc, key)), fix=did_you_mean(key, keys))
    if item["type"] == "explained_key":
        return ConfigError(item["ctx"]["what"], where=where((*loc, item["ctx"]["key"])), fix=item["ctx"]["fix"])
    if item["type"] == "missing":
        return ConfigError(f"{loc[-1]!r} is missing", where=where(loc[:-1]), fix=f"add `{loc[-1]}:`")
    what, fix = _explain(item)
    return ConfigError(what, where=where(loc), fix=fix)


#: Kind of a pydantic error → message and fix in the terms of YAML. ``{…}`` is a value of the error's context.
_EXPLANATIONS = {
    "string_type": ("must be text", "put it in quotes"),
    "dict_type": ("must be a mapping of keys", "write its keys below it, indented"),
    "tuple_type": ("must be a list", "put a '-' before each item"),
    "int_type": ("must be a whole number", "write digits only"),
    "float_type": ("must be a number", "write a number without quotes or units"),
    "bool_type": ("must be true or false", "write `true` or `false`"),
    "too_short": ("is empty or too short", "write {min_length} or more entries or characters"),
    "greater_than_equal": ("must be {ge} or more", "write a larger number"),
    "greater_than": ("must be more than {gt}", "write a larger number"),
    "less_than_equal": ("must be {le} or less", "write a smaller number"),
    "less_than": ("must be less than {lt}", "write a smaller number"),
}
#: Kinds with the explanation of another kind.
_SAME = {
    "model_type": "dict_type",
    "list_type": "tuple_type",
    "int_parsing": "int_type",
    "int_parsing_size": "int_type",
    "int_from_float": "int_type",
    "float_parsing": "float_type",
    "bool_parsing": "bool_type",
    "string_too_short": "too_short",
}


def _split_error(error: Exception) -> tuple[str, str | None]:
    """Return the message and the fix of a validator's error: the fix is the second of two texts."""
    match error.args:
        case (str() as what, str() as fix):
            return what, fix
    return str(error), None


def _explain(item: Any) -> tuple[str, str | None]:
    """Return message and fix in the terms of YAML instead of pydantic's. Neither contains the value, which may be a secret."""
    kind, context, value = item["type"], item.get("ctx", {}), item.get("input")
    if kind == "value_error":
        return _split_error(context["error"])
    if value is None:
        return "has no value", "write a value, or remove the key"
    if explanation := _EXPLANATIONS.get(_SAME.get(kind, kind)):
        what, fix = explanation
        return what.format(**context), fix.format(**context)
    message = item["msg"].replace("Input should be", "must be", 1).replace("True", "true").replace("False", "false")
    fix = "see `headrace schema` for valid values"
    if kind in ("literal_error", "enum"):
        hint = did_you_mean(str(value), re.findall(r"'([^']*)'", context["expected"]))
        fix = hint if hint.startswith("did") else "write one of these values"
    return message[0].lower() + message[1:], fix


def _join_alternatives(problems: list[ConfigError]) -> ConfigError:
    """Return one error for a value that has none of several types, or several problems."""
    whats = list(dict.fromkeys(problem.what for problem in problems))
    fixes = list(dict.fromkeys(problem.fix for problem in problems if problem.fix))
    if not all(what.startswith("must be ") for what in whats):
        return ConfigError("; ".join(whats), where=problems[0].where, fix="; ".join(fixes) or None)
    whats = [what.removeprefix("must be ") for what in whats]
    return ConfigError("must be " + " or ".join(whats), where=problems[0].where, fix=", or ".join(fixes) or None)
