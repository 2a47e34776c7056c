"""YAML documents with line numbers, and the errors for invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, strategies as st
from pydantic import Field, ValidationError, model_validator

from headrace.config.maintenance_options import Maintenance
from headrace.config.yaml_document import Document, load, parse
from headrace.errors import ConfigError
from headrace.sdk.config import Config, option_text
from headrace.suggestions import did_you_mean


class Salt(Config):
    salt: str = Field(min_length=4)


class Rule(Config):
    sha256: Salt | None = None
    characters: int | None = None

    @model_validator(mode="after")
    def _one(self) -> Rule:
        if (self.sha256 is None) == (self.characters is None):
            raise ValueError("say exactly one of sha256, characters")
        return self


class Block(Config):
    passthrough: ClassVar[tuple[str, ...]] = ("hoodie.*", "ignoreMissingFiles")

    path: str
    table_type: str = Field("COPY_ON_WRITE", alias="table.type")
    columns: dict[str, Rule] = Field(default_factory=dict)
    names: tuple[str, ...] = ()
    subscribe: str | list[str] = ""


def error_text(text: str) -> str:
    """Return the error of a file whose block is under ``sink:`` and ``hudi:``."""
    document = parse(text, "pipeline.yaml")
    with pytest.raises(ValidationError) as raised:
        Block.model_validate(document.data["sink"]["hudi"])
    return str(document.invalid(raised.value, ("sink", "hudi")))


def error_of(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse(text, "pipeline.yaml")
    return str(raised.value)


class TestBuild:
    def test_values_are_parsed_with_their_lines(self) -> None:
        document = parse(
            "name: moma\n\nsink:\n  hudi:\n    path: s3a://lake\nsinks:\n  - a: 1\n  - b: true\n", "p.yaml"
        )
        assert document.data == {
            "name": "moma",
            "sink": {"hudi": {"path": "s3a://lake"}},
            "sinks": [{"a": 1}, {"b": True}],
        }
        assert document.where(("sink", "hudi", "path")) == "p.yaml:5 sink.hudi.path"
        assert document.where(("sinks", 1, "b")) == "p.yaml:8 sinks.1.b"

    def test_missing_key_has_the_line_of_its_parent(self) -> None:
        assert (
            parse("name: moma\nsink:\n  hudi: {}\n", "p.yaml").where(("sink", "hudi", "path"))
            == "p.yaml:3 sink.hudi.path"
        )

    def test_mapping_from_python_has_no_lines(self) -> None:
        assert Document({"name": "moma"}, "config").where(("name",)) == "config name"

    def test_keys_are_always_strings(self) -> None:
        assert parse("on: 1\n1: 2\nnull: 3\n", "p.yaml").data == {"on": 1, "1": 2, "null": 3}

    def test_alias_is_replaced_by_the_value_of_its_anchor(self) -> None:
        assert parse("a: &salt {salt: x}\nb: *salt\n", "p.yaml").data == {"a": {"salt": "x"}, "b": {"salt": "x"}}

    def test_empty_file_is_none(self) -> None:
        assert parse("# nothing yet\n", "p.yaml").data is None

    @given(
        st.recursive(
            st.integers(min_value=0) | st.booleans() | st.text("äbc :#'\"{}[]-,&*!|>%@`\n\\", max_size=8) | st.none(),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text("abc:-. ", min_size=1), inner, max_size=3)
            ),
        )
    )
    def test_dumped_yaml_is_parsed_unchanged(self, data: object) -> None:
        import yaml

        assert parse(yaml.safe_dump(data, allow_unicode=True), "p.yaml").data == data


class TestInvalidYaml:
    def test_duplicate_key_is_rejected(self) -> None:
        assert error_of("name: a\nsink: {}\nname: b\n") == (
            "pipeline.yaml:3 name: the key 'name' is duplicate, first in line 1\n  fix: keep one of them"
        )

    def test_duplicate_key_in_a_nested_mapping_is_rejected(self) -> None:
        assert error_of("sink:\n  hudi:\n    path: a\n    path: b\n").startswith(
            "pipeline.yaml:4 sink.hudi.path: the key 'path'"
        )

    def test_wrong_indentation_is_rejected(self) -> None:
        assert error_of("sink:\n  hudi:\n path: x\n").startswith("pipeline.yaml:3: not valid YAML: ")

    def test_tab_is_rejected(self) -> None:
        text = error_of("sink:\n\thudi: {}\n")
        assert text == (
            "pipeline.yaml:2: not valid YAML: found character '\\t' that cannot start any token\n"
            "  fix: check the indentation and the quotes there"
        )

    def test_unclosed_brace_is_rejected(self) -> None:
        assert error_of("sink: {hudi: {path: x}\nname: y").startswith("pipeline.yaml:2: not valid YAML: ")

    def test_second_document_is_rejected(self) -> None:
        assert error_of("a: 1\n---\nb: 2\n").startswith(
            "pipeline.yaml:2: not valid YAML: expected a single document in the stream, but found another document"
        )

    @pytest.mark.parametrize("text", ["a: {{ NAME }}", "{[a, b]: c}"])
    def test_key_that_is_not_text_is_rejected(self, text: str) -> None:
        assert "a key is a list or a mapping, as in `{{ NAME }}` without quotes" in error_of(text)

    def test_tag_is_rejected(self) -> None:
        assert "pipeline.yaml:1: not valid YAML: could not determine a constructor" in error_of("a: !secret x\n")

    def test_control_character_is_rejected(self) -> None:
        assert error_of("a: \0\n").startswith("pipeline.yaml: not valid YAML: unacceptable character #x0000")

    def test_invalid_date_is_rejected(self) -> None:
        assert error_of("a: 1\nb: 2026-99-01\n") == (
            "pipeline.yaml:2 b: '2026-99-01' is not valid: month must be in 1..12\n  fix: put it in quotes if it is text"
        )

    @pytest.mark.parametrize(("text", "number"), [("1:30", 90), ("1:30.5", 90.5), ("190:20:30.15", 685230.15)])
    def test_number_in_base_60_is_rejected(self, text: str, number: float) -> None:
        assert error_of(f"a: {text}\n") == (
            f"pipeline.yaml:1 a: YAML reads '{text}' as the number {number}\n"
            f"  fix: put it in quotes if it is text, or write {number}"
        )

    @pytest.mark.parametrize("text", ["!!bool maybe", "!!int ''", "!!float ''", "!!timestamp abc"])
    def test_invalid_value_of_a_tag_is_rejected(self, text: str) -> None:
        tag, value = text.removeprefix("!!").split()
        assert error_of(f"a: {text}\n").startswith(
            f"pipeline.yaml:1 a: '{value.strip(chr(39))}' is not valid as {tag}\n"
        )

    def test_recursive_alias_is_rejected(self) -> None:
        assert error_of("a: &a [*a]\n").startswith("pipeline.yaml: it is nested too deeply, or contains itself")


class TestFiles:
    def test_error_contains_the_file_name(self, tmp_path: Path) -> None:
        path = tmp_path / "pipeline.yaml"
        path.write_text("name: ä\n", encoding="utf-8")
        document = load(path)
        assert (document.data, document.where(("name",))) == ({"name": "ä"}, f"{path}:1 name")

    def test_missing_file_is_reported(self, tmp_path: Path) -> None:
        path = tmp_path / "nowhere.yaml"
        with pytest.raises(ConfigError) as raised:
            load(path)
        assert str(raised.value) == f"there is no file '{path}'\n  fix: name an existing pipeline file"

    def test_folder_is_rejected(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="is a folder\n  fix: name the pipeline file in it"):
            load(tmp_path)

    def test_binary_file_is_rejected(self, tmp_path: Path) -> None:
        (tmp_path / "p.yaml").write_bytes(b"name: \xff\xfe")
        with pytest.raises(ConfigError, match=r"not UTF-8 text: .*\n  fix: save the file as UTF-8"):
            load(tmp_path / "p.yaml")

    def test_inaccessible_file_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "p.yaml").write_text("a: 1")
        with pytest.raises(ConfigError, match="cannot be read: Not a directory"):
            load(tmp_path / "p.yaml" / "q.yaml")


class TestModels:
    def test_unknown_key_is_reported_with_the_nearest_key(self) -> None:
        assert error_text("sink:\n  hudi:\n    path: x\n    table.tpye: MERGE_ON_READ\n") == (
            "pipeline.yaml:4 sink.hudi.table.tpye: unknown key 'table.tpye'\n  fix: did you mean 'table.type'?"
        )

    def test_unknown_key_similar_to_a_passed_through_option_is_reported(self) -> None:
        assert error_text("sink: {hudi: {path: x, ignoremissingfile: true}}").endswith(
            "fix: did you mean 'ignoreMissingFiles'?"
        )

    def test_unknown_key_without_similar_keys_is_reported(self) -> None:
        assert error_text("sink: {hudi: {path: x, zzz: 1}}").endswith(
            "fix: known here: columns, ignoreMissingFiles, names, path, subscribe, table.type"
        )

    def test_missing_key_is_reported(self) -> None:
        assert error_text("\nsink:\n  hudi:\n    table.type: x\n") == (
            "pipeline.yaml:3 sink.hudi: 'path' is missing\n  fix: add `path:`"
        )

    def test_value_must_be_a_string(self) -> None:
        assert (
            error_text("sink:\n  hudi:\n    path: 7\n")
            == "pipeline.yaml:3 sink.hudi.path: must be text\n  fix: put it in quotes"
        )

    def test_unquoted_brace_is_reported_as_a_mapping(self) -> None:
        assert error_text("sink:\n  hudi:\n    path: {table}\n").endswith("must be text\n  fix: put it in quotes")

    def test_value_must_be_a_mapping(self) -> None:
        assert error_text("sink:\n  hudi:\n    path: x\n    columns: email\n").startswith(
            "pipeline.yaml:4 sink.hudi.columns: must be a mapping of keys\n  fix: write its keys below it, indented"
        )

    def test_block_must_be_a_mapping(self) -> None:
        assert "sink.hudi.columns.email: must be a mapping" in error_text(
            "sink: {hudi: {path: x, columns: {email: stars}}}"
        )

    def test_value_must_be_a_list(self) -> None:
        assert "sink.hudi.names: must be a list\n  fix: put a '-'" in error_text("sink: {hudi: {path: x, names: a}}")

    def test_error_of_a_validator_has_no_pydantic_prefix(self) -> None:
        assert error_text("sink:\n  hudi:\n    path: x\n    columns:\n      union_id: {}\n") == (
            "pipeline.yaml:5 sink.hudi.columns.union_id: say exactly one of sha256, characters"
        )

    def test_other_pydantic_error_is_reported(self) -> None:
        assert error_text("sink: {hudi: {path: x, columns: {email: {characters: many}}}}").startswith(
            "pipeline.yaml:1 sink.hudi.columns.email.characters: must be a whole number"
        )

    def test_invalid_value_of_a_union_is_reported_once(self) -> None:
        assert error_text("sink:\n  hudi:\n    path: x\n    subscribe: 5\n") == (
            "pipeline.yaml:4 sink.hudi.subscribe: must be text or a list\n"
            "  fix: put it in quotes, or put a '-' before each item"
        )

    def test_several_errors_are_reported_together(self) -> None:
        assert error_text("sink:\n  hudi:\n    path: 1\n    table.type: 2\n") == (
            "2 problems\n"
            "  pipeline.yaml:3 sink.hudi.path: must be text\n"
            "    fix: put it in quotes\n"
            "  pipeline.yaml:4 sink.hudi.table.type: must be text\n"
            "    fix: put it in quotes"
        )

    def test_errors_contain_no_value(self) -> None:
        assert "xyz" not in error_text("sink: {hudi: {path: x, columns: {email: {sha256: {salt: xyz}}}}}")

    def test_block_without_keys_is_valid(self) -> None:
        assert Rule.model_validate({"sha256": {"salt": "long"}}).sha256 == Salt(salt="long")
        with pytest.raises(ValidationError, match="path"):
            Block.model_validate(None)

    def test_field_is_accepted_by_alias_and_by_name(self) -> None:
        assert Block.model_validate({"path": "x", "table.type": "A"}) == Block(path="x", table_type="A")

    @pytest.mark.parametrize("text", ["off", "Off", "no", "on", "yes"])
    def test_word_for_a_boolean_is_kept_in_options_that_are_text(self, text: str) -> None:
        data = parse(f"{{path: {text}, hoodie.a: {text}, hoodie.b: [{text}], hoodie.c: TRUE}}", "p.yaml").data
        block = Block.model_validate(data)
        assert (block.path, block.options()) == (text, {"hoodie.a": text, "hoodie.b": text, "hoodie.c": "true"})

    @pytest.mark.parametrize(("text", "value"), [("off", False), ("No", False), ("on", True), ("YES", True)])
    def test_word_for_a_boolean_is_accepted_by_boolean_options(self, text: str, value: bool) -> None:
        assert Maintenance.model_validate(parse(f"enabled: {text}", "p.yaml").data).enabled is value

    def test_options_of_other_products_are_passed_through_as_strings(self) -> None:
        block = Block.model_validate(
            {"path": "x", "hoodie.a": True, "hoodie.b": 0.5, "hoodie.c": "x", "hoodie.d": ["k", 1], "hoodie.e": None}
        )
        assert block.options() == {"hoodie.a": "true", "hoodie.b": "0.5", "hoodie.c": "x", "hoodie.d": "k,1"}

    def test_model_is_immutable(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            Block(path="x").path = "y"  # type: ignore[misc]


class TestDidYouMean:
    def test_nearest_name_is_found_regardless_of_case(self) -> None:
        assert did_you_mean("EMIAL", ["id", "Email"]) == "did you mean 'Email'?"

    def test_all_names_are_listed_if_none_is_near(self) -> None:
        assert did_you_mean("x", ["id", "email"]) == "known here: email, id"

    def test_long_list_of_names_is_shortened(self) -> None:
        assert did_you_mean("x", [f"column_{i:02}" for i in range(30)]).endswith("column_19 and 10 more")

    def test_no_names_give_no_suggestion(self) -> None:
        assert did_you_mean("x", []) == "there are no valid names"


def test_expansion_of_nested_aliases_is_limited() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError, match="more than 100,000 values") as raised:
        parse("\n".join(lines), "bomb.yaml")
    assert "aliases" in str(raised.value.fix)


def test_alias_equals_its_anchor() -> None:
    assert parse("a: &salt {x: 1}\nb: *salt", "f.yaml").data == {"a": {"x": 1}, "b": {"x": 1}}


@pytest.mark.parametrize(("text", "number"), [("077", 63), ("0x10", 16), ("1:30", 90), ("0b11", 3)])
def test_number_that_yaml_reads_in_another_base_is_rejected(text: str, number: int) -> None:
    """A mode of a file, a password, or a time would silently be another text."""
    with pytest.raises(ConfigError) as raised:
        parse(f"name: x\nspark:\n  spark.x: {text}", "p.yaml")
    assert str(raised.value) == (
        f"p.yaml:3 spark.spark.x: YAML reads {text!r} as the number {number}\n"
        f"  fix: put it in quotes if it is text, or write {number}"
    )


@pytest.mark.parametrize("text", ["1.10", "-0.50", "2024-01-01", "2024-01-01T10:00:00Z", "7", "true", "text"])
def test_options_keep_their_text(text: str) -> None:
    assert option_text(parse(f"a: {text}", "p.yaml").data["a"]) == text
