"""Secrets in pipeline files, by their keys and by the models of plugins."""

from __future__ import annotations

from pathlib import Path

import yaml

from headrace.doctor.redacted_file import RedactedFile

FILE = """\
# token: commented
name: shop
version: 1.10
source: {kafka: {bootstrap.servers: "b:9092", kafka.sasl.jaas.config: 'Login required password="s3cr3t-jaas";', kafka.ssl.key.password: "${env:KEY}"}}
sink: {iceberg: {catalog: lake}}
spark: {spark.sql.catalog.lake.uri: "https://user:s3cr3t-url@host", spark.acme.access.key: s3cr3t-key, spark.executor.instances: 4}
alerts:
  to:
    - slack: {url: https://hooks.example/s3cr3t-slack}
    - webhook: {url: https://a.example/s3cr3t-hook, headers: {X-Custom: s3cr3t-header}}
    - email: {to: [ops@example.com], from: a@example.com, smarthost: "mail:25"}
connect:
  url: http://connect:8083
  config: {column.mask.hash.v2.SHA-256.with.salt.s3cr3t-salt: shop.name, database.password: 's3cr3t-db'}
"""


def test_no_secret_is_left(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(FILE)
    shown = RedactedFile(str(file)).write()
    assert "s3cr3t" not in shown
    assert "commented" not in shown
    data = yaml.safe_load(shown)
    assert data["source"]["kafka"]["kafka.ssl.key.password"] == "${env:KEY}", "a reference is not a secret"
    assert data["source"]["kafka"]["bootstrap.servers"] == "b:9092"
    assert data["connect"]["url"] == "http://connect:8083", "only the receivers of alerts have secret addresses"
    assert data["spark"]["spark.executor.instances"] == 4
    assert data["alerts"]["to"][2]["email"]["smarthost"] == "mail:25"
    assert "column.mask.hash.v2.SHA-256.with.salt.******" in data["connect"]["config"]


def test_secrets_are_removed_from_other_texts(tmp_path: Path) -> None:
    file, key = tmp_path / "shop.yaml", tmp_path / "key"
    key.write_text("s3cr3t-file\n")
    file.write_text(FILE + f"checkpoint: ${{file:{key}}}\n")
    redacted = RedactedFile(str(file))
    text = "s3cr3t-key s3cr3t-slack s3cr3t-header s3cr3t-salt s3cr3t-db s3cr3t-file https://hooks.example/s3cr3t-slack"
    assert redacted.redact(text).replace("s3cr3t-slack ", "").count("s3cr3t") == 0
    assert {"kafka", "shop", "lake"} <= redacted.names
