"""Secrets in clear text, and values that only look like them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from headrace_import.import_report import write_key
from headrace_import.references import find_clear_secret
from headrace_import.settings import name_new_folder

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("database.password", "pw"),
        ("iceberg.hadoop.fs.azure.account.key.acct.dfs.core.windows.net", "AbC=="),
        ("iceberg.hadoop.fs.azure.sas.box.acct.blob.core.windows.net", "sv=2024&sig=AbC"),
        ("iceberg.catalog.adls.connection-string.acct", "AccountName=a;AccountKey=AbC=="),
        ("iceberg.catalog.header.Authorization", "AbC"),
        ("iceberg.catalog.header.X-Api", "AbC"),
        ("catalog.properties.header.X-Api", "AbC"),
        ("iceberg.catalog.header.X-Login", "Bearer AbC"),
        ("iceberg.catalog.header.Cookie", "session=AbC"),
        ("iceberg.catalog.jdbc.pwd", "AbC"),
        ("iceberg.catalog.uri", "http://catalog?apikey=AbC"),
        ("schema.registry.url", "http://user:a/b@registry:8081"),
        ("schema.registry.url", "http://a:8081,http://user:pw@b:8081"),
        ("hoodie.write.commit.callback.http.custom.headers", "Authorization:Bearer Zq050xVb9"),
        ("hoodie.write.commit.callback.http.custom.headers", "X-Login:Zq050xVb9"),
        ("iceberg.hadoop.fs.a.extra", "Authorization: Basic dTpw"),
        ("consumer.override.extra", "X-Api-Key: Zq050xVb9"),
        ("catalog.properties.extra", "-----BEGIN RSA PRIVATE KEY-----\nAbC"),
        ("database.url", "jdbc:oracle:thin:scott/Zq033xVb9@//h:1521/x"),
        ("database.url", "jdbc:oracle:thin:scott/Zq033xVb9@PRODDB"),
        ("database.url", "jdbc:oracle:oci8:scott/Zq033xVb9@prod.world"),
        ("iceberg.catalog.jdbc.pass", "AbC"),
        ("iceberg.catalog.dbPass", "AbC"),
        ("iceberg.catalog.extra", '{"user": "u", "password": "AbC"}'),
        ("iceberg.catalog.extra", '{\\"password\\": \\"AbC\\"}'),
        ("iceberg.catalog.extra", "password: AbC"),
        ("database.initial.statements", "SET ROLE a IDENTIFIED BY 'AbC'"),
        ("iceberg.catalog.extra", "pwd = AbC"),
        ("iceberg.catalog.extra", "extra=db.pass='AbC'"),
        ("iceberg.catalog.uri", "jdbc:redshift:iam://h/db?a=b&SecretAccessKey=AbC"),
        ("sasl.jaas.config", 'x required clientId="${env:USER}" apiToken: "AbC";'),
        ("iceberg.catalog.s3.sse.key", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
        ("sasl.jaas.config", JAAS.format("pw")),
        ("consumer.override.sasl.jaas.config", JAAS.format("pw").replace('"u"', "${env:USER}")),
    ],
)
def test_secret_is_found(key: str, value: str) -> None:
    assert find_clear_secret(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("database.password", "${file:/etc/a.properties:password}"),
        ("sasl.jaas.config", JAAS.format("${file:/etc/kafka.properties:pw}")),
        ("schema.registry.url", "http://${env:USER}:${env:PASSWORD}@registry:8081"),
        ("schema.registry.url", "http://a:8081/path,http://b:8081"),
        ("transforms.maskToken.replacement", "xxx"),
        ("message.key.columns", "shop.orders:id"),
        ("message.key.columns", "shop.token:id;shop.password:id"),
        ("iceberg.catalog.extra", '{"password": "", "token": null, "secret": ""}'),
        ("sasl.jaas.config", 'x required password="${env:PW}" oauth.access.token.is.jwt="false";'),
        ("query", "SELECT * FROM a JOIN b ON a.private_id = b.private_id"),
        ("iceberg.catalog.bypass", "x"),
        ("key.converter", "org.apache.kafka.connect.json.JsonConverter"),
        (
            "iceberg.catalog.s3.sse.key",
            "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        ),
        ("database.url", "jdbc:oracle:thin:scott/${env:PASSWORD}@//h:1521/x"),
        ("consumer.override.extra", "X-Api-Key: ${env:KEY}"),
        ("credentials.profile", "default"),
        ("s3.credentials.provider.class", "com.example.Provider"),
        ("iceberg.hadoop.pwdump", "x"),
        ("iceberg.catalog.header.X-Iceberg-Access-Delegation", "vended-credentials"),
    ],
)
def test_other_value_is_copied(key: str, value: str) -> None:
    assert not find_clear_secret(key, value)


def test_salt_in_the_name_of_an_option_is_hidden() -> None:
    assert (
        write_key("column.mask.hash.v2.SHA-256.with.salt.CzQMA0cB5K") == "column.mask.hash.v2.SHA-256.with.salt.******"
    )


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/lake", "/headrace"),
        ("/data/lake/", "/data/headrace"),
        ("lake", "./headrace"),
        ("s3://lake", "s3://lake/headrace"),
        ("s3://lake/silver/orders", "s3://lake/silver/headrace"),
        ("hdfs:///lake", "hdfs:///headrace"),
    ],
)
def test_new_folder_is_next_to_that_of_the_table(path: str, folder: str) -> None:
    assert name_new_folder(path) == folder


WORKER = {
    "bootstrap.servers": "b:9092",
    "config.providers": "aws,folder,own",
    "config.providers.aws.class": "com.amazonaws.kafka.config.providers.SecretsManagerConfigProvider",
    "config.providers.folder.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
    "config.providers.own.class": "com.acme.OwnConfigProvider",
}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("${file:/etc/a.properties:token}", "${file:/etc/a.properties:token}"),
        ("${directory:/etc/a:token}", "${file:/etc/a/token}"),
        ("${dir:/etc/a:token}", "${file:/etc/a/token}"),
        ("${env:TOKEN}", "${env:TOKEN}"),
        ("${env::TOKEN}", "${env:TOKEN}"),
        ("${ssm::/a/token}", "${ssm:/a/token}"),
        ("${secretManager:shop:token}", "${secretManager:shop:token}"),
        ("${aws:shop:token}", "${secretManager:shop:token}"),
        ("${folder:/etc/a:token}", "${file:/etc/a/token}"),
        ("${vault:secret/shop:token}", None),
        ("${own:shop:token}", None),
    ],
)
def test_reference_to_a_config_provider(value: str, written: str | None, importer: Any) -> None:
    sink = {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": "orders",
        "iceberg.catalog.type": "rest",
        "iceberg.catalog.token": value,
    }
    result = importer.run(importer.write("sink.json", sink), importer.write_properties(WORKER))
    [options] = yaml.safe_load(result.pipeline)["sink"].values()
    assert options["catalog.properties"]["token"] == (written or "${env:ICEBERG_CATALOG_TOKEN}")
    report = " ".join(str(result.report).split())
    provider = value[2:].partition(":")[0]
    assert (f"headrace has no config provider {provider}" in report) is (written is None)
    assert ("set the environment variable ICEBERG_CATALOG_TOKEN" in report) is (written is None)
