"""Keys of a pipeline file, and the errors for invalid ones."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from headrace.config.model import PipelineConfig, TableRule
from headrace.config.table_names import check_table_name
from headrace.config.yaml_document import parse
from headrace.errors import ConfigError, PluginError
from headrace.pipeline import Pipeline
from headrace_sinks.hudi import HudiSink
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_sources.transports.files import FilesConfig, FilesSource
from headrace_transforms.mask import Mask
from headrace_transforms.unwrap import Unwrap

SHORTEST = """\
name: moma
source: {files: {path: bronze/, format: avro}}
sink: {iceberg: {warehouse: lake/}}
checkpoint: _checkpoints/moma
"""


def error_text(text: str) -> str:
    document = parse(text, "pipeline.yaml")
    with pytest.raises(ValidationError) as raised:
        PipelineConfig.model_validate(document.data)
    return str(document.invalid(raised.value))


def replace_in_shortest(old: str, new: str) -> str:
    """Return the shortest file with one line changed."""
    assert old in SHORTEST
    return SHORTEST.replace(old, new)


class TestFile:
    def test_shortest_file_is_valid(self) -> None:
        config = PipelineConfig.model_validate(parse(SHORTEST, "p.yaml").data)
        assert config.source == {"files": {"path": "bronze/", "format": "avro"}}
        assert config.sink == {"iceberg": {"warehouse": "lake/"}}
        assert (config.tables, config.transforms, config.spark, config.trigger) == ((), (), {}, None)

    def test_several_sinks_are_accepted(self) -> None:
        config = PipelineConfig.model_validate(
            parse(replace_in_shortest("sink: ", "sinks:\n- console\n- "), "p.yaml").data
        )
        assert config.sinks == ({"console": {}}, {"iceberg": {"warehouse": "lake/"}})

    def test_bare_name_is_a_plugin_without_options(self) -> None:
        config = PipelineConfig.model_validate(parse(SHORTEST + "transforms:\n- unwrap\n- rename:\n", "p.yaml").data)
        assert config.transforms == ({"unwrap": {}}, {"rename": None})

    def test_unknown_key_is_rejected(self) -> None:
        assert error_text(SHORTEST + "transform: []\n") == (
            "pipeline.yaml:5 transform: unknown key 'transform'\n  fix: did you mean 'transforms'?"
        )

    def test_missing_key_is_rejected(self) -> None:
        assert error_text(replace_in_shortest("checkpoint: _checkpoints/moma", "")) == (
            "pipeline.yaml:1: 'checkpoint' is missing\n  fix: add `checkpoint:`"
        )

    def test_empty_checkpoint_is_rejected(self) -> None:
        text = error_text(replace_in_shortest("_checkpoints/moma", "''"))
        assert text.startswith("pipeline.yaml:4 checkpoint: is empty or too short")
        assert text.endswith("fix: write 1 or more entries or characters")

    def test_sink_and_sinks_together_are_rejected(self) -> None:
        assert (
            error_text(SHORTEST + "sinks: [console]\n")
            == "pipeline.yaml:1: write either `sink:` or `sinks:` with a list"
        )

    def test_file_without_a_sink_is_rejected(self) -> None:
        assert error_text(replace_in_shortest("sink: {iceberg: {warehouse: lake/}}", "sinks: []")).endswith(
            "write either `sink:` or `sinks:` with a list; both are missing"
        )

    def test_two_plugins_in_one_sink_are_rejected(self) -> None:
        assert error_text(replace_in_shortest("sink: {", "sink: {console: {}, ")) == (
            "pipeline.yaml:3 sink: name exactly one plugin, not 'console', 'iceberg': "
            "indent a plugin's options below its name, and give every plugin a '-'"
        )

    def test_options_next_to_their_transform_are_rejected(self) -> None:
        text = SHORTEST + "transforms:\n- rename: {}\n- unwrap:\n  add.fields: op\n"
        assert error_text(text).startswith(
            "pipeline.yaml:7 transforms.1: name exactly one plugin, not 'unwrap', 'add.fields'"
        )

    def test_item_without_a_plugin_is_rejected(self) -> None:
        assert "transforms.0: name exactly one plugin, not none" in error_text(SHORTEST + "transforms: [{}]\n")

    @pytest.mark.parametrize("source", ["{}", "{value: json}", "{files: {}, kafka: {}}"])
    def test_source_must_have_exactly_one_plugin(self, source: str) -> None:
        text = error_text(replace_in_shortest("{files: {path: bronze/, format: avro}}", source))
        assert text.startswith("pipeline.yaml:2 source: name exactly one source, not ")

    def test_source_without_a_block_is_rejected(self) -> None:
        assert error_text(replace_in_shortest("{files: {path: bronze/, format: avro}}", "files")).startswith(
            "pipeline.yaml:2 source: must be a mapping of keys"
        )

    @pytest.mark.parametrize("name", ["''", "../moma", "mo ma", ".moma", '"moma\\n"', "a/b"])
    def test_invalid_name_is_rejected(self, name: str) -> None:
        assert "pipeline.yaml:1 name: " in (text := error_text(replace_in_shortest("moma\nsource", f"{name}\nsource")))
        assert "is not a name: letters, digits, '_', '-' and '.'" in text

    def test_setting_without_the_spark_prefix_is_rejected(self) -> None:
        assert error_text(SHORTEST + "spark: {driver.memory: 4g}\n") == (
            "pipeline.yaml:5 spark: 'driver.memory' is not a Spark setting: its name must start with 'spark.'"
        )

    @pytest.mark.parametrize("key", ["trigger", "min.sync.interval", "delete.retention"])
    def test_invalid_interval_is_rejected(self, key: str) -> None:
        assert error_text(SHORTEST + f"{key}: often\n") == (
            f"pipeline.yaml:5 {key}: 'often' is not an interval\n  fix: write it like \"10 seconds\""
        )


class TestTables:
    @pytest.mark.parametrize(
        "target", ["moma.artists", "{topic}", "{db}.{schema}_{table}", "a-b", "größe", "{prefix}.x"]
    )
    def test_valid_target_is_accepted(self, target: str) -> None:
        assert TableRule(source="x", target=target).target == target

    @pytest.mark.parametrize(
        "target",
        [
            "",
            "../x",
            "a; DROP TABLE b",
            "a'b",
            'a"b',
            "a`b",
            "a..b",
            ".a",
            "a.",
            "a b",
            "a/b",
            "a\n",
            "a\0",
            "-a",
            "%2e",
        ],
    )
    def test_target_with_an_invalid_table_name_is_rejected(self, target: str) -> None:
        with pytest.raises(ValidationError) as raised:
            TableRule(source="x", target=target)
        assert f"{target!r} is not a table name: parts of letters, digits, '_' and '-', joined by '.'" in str(
            raised.value
        )
        with pytest.raises(ValueError, match="is not a table name"):
            check_table_name(target)

    @pytest.mark.parametrize(
        "target", ["{tabel}", "{}", "{0}", "{", "a{table", "{table[0]}", "{table!r}", "{table:>9}"]
    )
    def test_target_with_an_unknown_field_is_rejected(self, target: str) -> None:
        text = error_text(SHORTEST + f"tables:\n- source: x\n  target: '{target}'\n")
        assert text == (
            f"pipeline.yaml:7 tables.0.target: '{target}' uses an unknown field; "
            "known fields: {topic}, {prefix}, {db}, {schema}, {table}"
        )

    def test_invalid_regular_expression_is_rejected(self) -> None:
        assert error_text(SHORTEST + "tables:\n- source: /moma(/\n") == (
            "pipeline.yaml:6 tables.0.source: not a regular expression: missing ), unterminated subpattern at position 4"
        )

    def test_rule_without_a_source_is_rejected(self) -> None:
        assert error_text(SHORTEST + "tables:\n- target: x\n") == (
            "pipeline.yaml:6 tables.0: 'source' is missing\n  fix: add `source:`"
        )

    def test_rule_that_is_a_string_is_rejected(self) -> None:
        assert error_text(SHORTEST + "tables: [moma.public.artists]\n").startswith(
            "pipeline.yaml:5 tables.0: must be a mapping of keys"
        )

    def test_key_may_have_one_or_several_columns(self) -> None:
        assert TableRule.model_validate({"source": "x", "key": "id"}).key == ("id",)
        assert TableRule.model_validate({"source": "x", "key": ["a", "b"]}).key == ("a", "b")

    def test_each_table_of_a_topic_may_have_a_key(self) -> None:
        rule = {"source": "x", "route.by.field": "source.table", "key": {"lines": ["order_id", "line"], "*": "id"}}
        parsed = TableRule.model_validate(rule)
        assert parsed.key_columns == ("order_id", "line", "id")
        assert [parsed.key_of(part) for part in ("lines", "orders", None)] == [("order_id", "line"), ("id",), ()]
        with pytest.raises(ValidationError, match=r"`key` is a mapping of tables, which needs `route.by.field`"):
            TableRule.model_validate({"source": "x", "key": {"lines": "id"}})

    def test_single_routing_field_needs_no_list(self) -> None:
        rules = [{"source": "x", "route.by.field": value} for value in ("source.table", ["source.table"])]
        assert {TableRule.model_validate(rule).route_by_field for rule in rules} == {("source.table",)}

    def test_one_topic_cannot_be_both_split_and_one_table(self) -> None:
        with pytest.raises(ValidationError, match="exclude each other"):
            TableRule.model_validate({"source": "x", "route.by.field": "source.table", "logical.table": True})


class TestPlugins:
    """Errors of a complete file, after its plugins are loaded and their blocks validated."""

    @staticmethod
    def error_of(text: str) -> str:
        from headrace import Pipeline
        from headrace.config.loader import build

        with pytest.raises((ConfigError, PluginError)) as raised:
            build(parse(text, "pipeline.yaml"), Pipeline)
        return str(raised.value)

    def test_valid_file_is_accepted(self) -> None:
        from headrace import Pipeline
        from headrace.config.loader import build

        text = SHORTEST + "transforms:\n- unwrap: {delete.tombstone.handling.mode: rewrite, add.fields: op}\n"
        pipeline = build(parse(text, "pipeline.yaml"), Pipeline)
        assert pipeline.transforms[0].config.delete_handling == "rewrite"

    def test_unread_record_keys_are_accepted(self) -> None:
        from headrace.config.loader import build

        kafka = "source: {kafka: {bootstrap.servers: 'b:9092', subscribe: orders}, value: json, key: %s}"
        found = {
            key: build(
                parse(replace_in_shortest("source: {files: {path: bronze/, format: avro}}", kafka % key), "p.yaml"),
                Pipeline,
            )
            for key in ("none", "json")
        }
        assert {key: bool(pipeline.plan.key_format) for key, pipeline in found.items()} == {"none": False, "json": True}

    def test_unread_record_values_are_rejected(self) -> None:
        kafka = "source: {kafka: {bootstrap.servers: 'b:9092', subscribe: orders}, value: none}"
        text = self.error_of(replace_in_shortest("source: {files: {path: bronze/, format: avro}}", kafka))
        assert text.startswith("pipeline.yaml:2 source.value.none: unknown format 'none'")

    def test_unknown_plugin_is_rejected(self) -> None:
        assert self.error_of(replace_in_shortest("iceberg", "icebreg")) == (
            "pipeline.yaml:3 sink.icebreg: unknown sink 'icebreg'\n  fix: did you mean 'iceberg'?"
        )

    def test_unknown_format_is_rejected(self) -> None:
        assert self.error_of(replace_in_shortest("format: avro", "format: arvo")) == (
            "pipeline.yaml:2 source.files.format: unknown format 'arvo'; did you mean 'avro'?"
        )

    def test_unknown_option_is_rejected(self) -> None:
        assert self.error_of(replace_in_shortest("format: avro", "fromat: avro")) == (
            "pipeline.yaml:2 source.files.fromat: unknown key 'fromat'\n  fix: did you mean 'format'?"
        )

    def test_unknown_mode_is_rejected(self) -> None:
        text = self.error_of(SHORTEST + "transforms:\n- unwrap:\n    delete.tombstone.handling.mode: rewind\n")
        assert text.startswith("pipeline.yaml:7 transforms.0.unwrap.delete.tombstone.handling.mode: must be 'drop', ")

    @pytest.mark.parametrize(
        ("option", "error"),
        [
            (
                "replace.null.with.default: true",
                (
                    "a null of the database stays null: set it to `false`, and replace nulls with "
                    "`compute: {columns: {size: 'coalesce(size, 0)'}}`"
                ),
            ),
            (
                "when: id > 1",
                "a table has either envelopes or rows: select tables with `tables`, and rows with `filter`",
            ),
            (
                "route.by.field: table",
                (
                    "`route.by.field` selects a topic by a column, and a delete has only the columns of its key\n"
                    "  fix: split a topic by a field of its events: `tables: - {source: …, route.by.field: source.table}`"
                ),
            ),
        ],
    )
    def test_unsupported_option_of_the_debezium_transform_is_rejected(self, option: str, error: str) -> None:
        name = option.partition(":")[0]
        text = self.error_of(SHORTEST + f"transforms:\n- unwrap: {{{option}}}\n")
        assert text == f"pipeline.yaml:6 transforms.0.unwrap.{name}: {error}"

    def test_invalid_field_in_add_fields_is_rejected(self) -> None:
        text = self.error_of(SHORTEST + "transforms:\n- unwrap: {add.fields: 'op,a.b.c'}\n")
        assert text == (
            "pipeline.yaml:6 transforms.0.unwrap.add.fields: 'a.b.c' is not a field: "
            "write `op`, `source.ts_ms` or `source.ts_ms:alias`"
        )

    def test_mask_without_a_rule_is_rejected(self) -> None:
        assert self.error_of(SHORTEST + "transforms:\n- mask:\n    columns:\n      email: {}\n") == (
            "pipeline.yaml:8 transforms.0.mask.columns.email: "
            "requires exactly one of sha256, sha512, hmac_sha256, characters, truncate, replacement, nullify, "
            "empty, partial, date_trunc, bucket, ip_network, token"
        )

    @pytest.mark.parametrize(
        ("tags", "error"),
        [
            ("pii: address..street", "'address..street' matches no column: write 'address.street'"),
            ("pii: [email, .street]", "'.street' matches no column: write 'street'"),
            ("pii: 'address.street. '", "'address.street. ' matches no column: write 'address.street'"),
            ("pii: ' '", "' ' matches no column: write 'email'"),
            ("pii: '`address`.street'", "'`address`.street' matches no column: write 'address.street'"),
            ("pii: /e.*/", "'/e.*/' matches no column: write a glob, as in '*email*', and no regular expression"),
            ("pii: []", "names no column: write names or globs, as in [email, '*.phone']"),
        ],
    )
    def test_tag_that_matches_no_column_is_rejected(self, tags: str, error: str) -> None:
        assert self.error_of(f"{SHORTEST}tags: {{{tags}}}\n") == f"pipeline.yaml:5 tags.pii: {error}"

    @pytest.mark.parametrize(
        ("tags", "fix"),
        [("{pii: email}", "did you mean 'pii'?"), ("{}", "write `tags: {pi: [email]}` beside `transforms:`")],
    )
    def test_mask_of_an_unknown_tag_is_rejected(self, tags: str, fix: str) -> None:
        text = self.error_of(f"{SHORTEST}tags: {tags}\ntransforms:\n- mask: {{tags: {{pi: {{nullify: true}}}}}}\n")
        assert text == f"pipeline.yaml:7 transforms.0.mask: the pipeline has no tag 'pi'\n  fix: {fix}"

    def test_missing_salt_is_rejected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_SALT", raising=False)
        text = self.error_of(
            SHORTEST + 'transforms:\n- mask:\n    columns: {email: {sha256: {salt: "${env:NO_SALT}"}}}\n'
        )
        assert (
            "pipeline.yaml:7 transforms.0.mask.columns.email.sha256.salt: ${env:NO_SALT}: the environment has no"
            in text
        )

    def test_same_new_name_for_two_columns_is_rejected(self) -> None:
        text = self.error_of(SHORTEST + "transforms:\n- rename: {columns: {a: c, b: C}}\n")
        assert text.startswith("pipeline.yaml:6 transforms.0.rename.columns: two columns would be named 'c'")

    def test_invalid_new_name_is_rejected(self) -> None:
        assert "'' is not a valid column name" in self.error_of(
            SHORTEST + "transforms:\n- rename: {columns: {a: ''}}\n"
        )
        text = self.error_of(SHORTEST + "transforms:\n- rename: {columns: {a: _headrace_op}}\n")
        assert "'_headrace_op' is not a valid column name" in text
        for block in (
            "rename: {columns: {a: _HEADRACE_op}}",
            "unwrap: {add.fields: op, add.fields.prefix: _HEADRACE_}",
        ):
            assert "'_HEADRACE_op' is not a valid column name" in self.error_of(f"{SHORTEST}transforms:\n- {block}\n")

    def test_mapping_is_validated_like_a_file(self) -> None:
        config = parse(replace_in_shortest("iceberg", "icebreg"), "x").data
        with pytest.raises(PluginError, match=r"^config sink\.icebreg: unknown sink"):
            Pipeline.from_dict(config)


class TestPassthrough:
    def test_hudi_options_are_passed_through(self) -> None:
        sink = HudiSink({"path": "/lake", "hoodie.cleaner.commits.retained": 3, "hoodie.metadata.enable": False})
        assert sink.config.options() == {"hoodie.cleaner.commits.retained": "3", "hoodie.metadata.enable": "false"}

    def test_unwrap_accepts_debezium_option_names(self) -> None:
        options = {"delete.tombstone.handling.mode": "drop", "add.fields": "op", "add.fields.prefix": "x_"}
        config = Unwrap(options).config
        assert (config.delete_handling, config.add_fields, config.add_fields_prefix) == ("drop", "op", "x_")
        assert Unwrap(delete_handling="drop", add_fields="op", add_fields_prefix="x_").config == config

    def test_repr_does_not_contain_the_salt(self) -> None:
        mask = Mask(columns={"email": {"sha256": {"salt": "pepper"}}})
        assert "pepper" not in repr(mask.config)

    def test_spark_options_of_the_files_source_and_format_are_passed_through(self) -> None:
        source = FilesSource(path="x", format="json", maxFilesPerTrigger=5, ignoreMissingFiles=True, allowComments=True)
        assert source._reader_options() == {
            "recursiveFileLookup": "true",
            "__globPaths__": "false",
            "ignoreMissingFiles": "true",
            "allowComments": "true",
        }
        assert isinstance(source._format, JsonFormat)
        assert source._format.config.options() == {"allowComments": "true"}

    def test_option_of_another_format_is_rejected(self) -> None:
        data = {"path": "x", "format": "avro", "allowComments": True}
        with pytest.raises(ValidationError) as raised:
            FilesConfig.model_validate(data)
        text = str(parse("{}", "p.yaml").invalid(raised.value))
        assert text.startswith("p.yaml:1 allowComments: unknown key 'allowComments'")
