"""Types of the two images of a row, which JSON inference finds separately."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructField, StructType

from headrace_sources.dialects.row_images import unite_images


def parse(text: str) -> StructType:
    """Return the type of ``a, b: (c, d)``: strings, and structs of strings."""
    from pyspark.sql.types import StringType

    found, open_structs = StructType(), []
    for token in text.replace("(", " ( ").replace(")", " ) ").replace(",", " ").split():
        if token == "(":
            open_structs.append(found)
            found = StructType()
        elif token == ")":
            inner, found = found, open_structs.pop()
            *fields, last = found.fields
            found = StructType([*fields, StructField(last.name, inner)])
        else:
            found.add(token, StringType())
    return found


@pytest.mark.parametrize(
    ("after", "before", "united"),
    [
        ("id, name", "id", ("id, name", "id, name")),
        ("id", "id, name", ("id, name", "id, name")),
        ("id, name", "id, NAME", ("id, name", "id, NAME")),
        ("id, o (x, y)", "o (X, z)", ("id, o (x, y, z)", "id, o (X, y, z)")),
        ("a, A", "A, a", ("a, A", "a, A")),
    ],
)
def test_each_image_has_all_fields_in_its_own_spelling(after: str, before: str, united: tuple[str, str]) -> None:
    assert unite_images(parse(after), parse(before)) == (parse(united[0]), parse(united[1]))
