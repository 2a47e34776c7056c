"""Secrets, whose values are available to code and redacted in output."""

from __future__ import annotations

import copy
import json
import pickle
import time
from typing import Any

import pytest
from pydantic import Field, SecretStr

from headrace.sdk import Config
from headrace.sdk.options import option_text
from headrace.secret_values import (
    Secret,
    find_named_secrets,
    has_secret_name,
    hide_credentials,
    hide_named_secrets,
    restore_secrets,
)


class Login(Config):
    """Credentials of a catalog."""

    uri: str
    properties: dict[str, str] = Field(default_factory=dict, alias="catalog.properties")
    names: tuple[str, ...] = ()
    salt: SecretStr | None = None
    passthrough = ("kafka.*",)


@pytest.mark.parametrize(
    ("key", "is_secret", "is_foreign_secret"),
    [
        ("fs.s3a.secret.key", True, True),
        ("kafka.ssl.key.password", True, True),
        ("kafka.sasl.oauthbearer.token.endpoint.url", False, False),
        ("hadoop.security.credential.provider.path", False, False),
        ("fs.s3a.aws.credentials.provider", False, False),
        ("hadoop.security.authorization", False, True),
        ("basic.auth.credentials.source", False, False),
        ("gcp.credentials", False, True),
        ("jdbc.pwd", False, True),
        ("jdbc.pass", False, True),
        ("userPass", False, True),
        ("bypass", False, False),
        ("column.mask.hash.v2.SHA-256.with.salt.x", False, False),
        ("message.key.columns", False, False),
    ],
)
def test_names_of_secrets(key: str, is_secret: bool, is_foreign_secret: bool) -> None:
    assert (has_secret_name(key), has_secret_name(key, is_foreign=True)) == (is_secret, is_foreign_secret)


@pytest.mark.parametrize(
    "start", ["a=", '"token"', "a:b:c:d/", "x.password", "password:", 'a"=\\"', "password='", "a='token=\"", "token \n"]
)
def test_search_for_secrets_in_texts_takes_linear_time(start: str) -> None:
    begin = time.process_time()
    hide_named_secrets(start * 30_000)
    hide_credentials(start * 30_000)
    assert time.process_time() - begin < 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("jdbc:x?a=b&SecretAccessKey=Ab1;c=d", "jdbc:x?a=b&SecretAccessKey=******;c=d"),
        ("user: app\npassword: Ab1\nport: 1", "user: app\npassword: ******\nport: 1"),
        ("x required user='a' password='A b,1' c='d';", "x required user='a' password='******' c='d';"),
        ('{"token": "A \\" b1", "c": "d"}', '{"token": "******", "c": "d"}'),
        ('{\\"token\\": \\"A b1\\", \\"c\\": 1}', '{\\"token\\": \\"******\\", \\"c\\": 1}'),
        ("SET PASSWORD = 'A''b1'; SET x = 1", "SET PASSWORD = '******'; SET x = 1"),
        ("CREATE USER a IDENTIFIED BY 'Ab1' REQUIRE SSL", "CREATE USER a IDENTIFIED BY '******' REQUIRE SSL"),
        ("ALTER ROLE a PASSWORD 'Ab1'", "ALTER ROLE a PASSWORD '******'"),
        ("pwd = Ab1 api_key=Ab1", "pwd = ****** api_key=******"),
        ("sv=2024&sig=Ab1&se=1", "sv=2024&sig=******&se=1"),
        ("secret='token=Ab1'", "secret='******'"),
    ],
)
def test_values_with_names_of_secrets_are_hidden(text: str, shown: str) -> None:
    assert hide_named_secrets(text) == hide_named_secrets(shown) == shown
    assert find_named_secrets(text)
    assert find_named_secrets(shown) == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM a JOIN b ON a.token = b.token WHERE is_private = 1 AND a.private_id = b.id",
        '{"password": "", "token": null}',
        "oauth.access.token.is.jwt=false",
        "shop.token:id;shop.password:id",
        "the password of the user",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert hide_named_secrets(text) == text


def secret() -> Secret:
    return Secret("s3cr3t", "${env:PW}")


def test_secret_equals_its_value() -> None:
    assert secret() == "s3cr3t"
    assert f"{secret()}" == str(secret()) == "s3cr3t"
    assert json.dumps([secret()]) == '["s3cr3t"]'


def test_secret_is_shown_as_its_reference() -> None:
    for kept in (secret(), copy.deepcopy(secret()), pickle.loads(pickle.dumps(secret()))):
        assert repr({"password": kept}) == "{'password': '${env:PW}'}"


def test_config_hides_secrets_in_output_and_lists_them() -> None:
    config = Login.model_validate(
        {
            "uri": secret(),
            "catalog.properties": {"odd": secret(), "token": "in the file", "type": "rest"},
            "names": ["a", secret()],
            "salt": "pepper",
            "kafka.sasl.jaas.config": secret(),
            "kafka.ssl.key.password": "in the file, too",
            "kafka.group.id": "mine",
        }
    )
    assert repr(config) == (
        "Login(uri='${env:PW}', properties={'odd': '${env:PW}', 'token': '******', 'type': 'rest'}, "
        "names=('a', '${env:PW}'), salt=SecretStr('**********'), kafka.sasl.jaas.config='${env:PW}', "
        "kafka.ssl.key.password='******', kafka.group.id='mine')"
    )
    assert (config.uri, config.properties["odd"], config.names[1]) == ("s3cr3t", "s3cr3t", "s3cr3t")
    assert config.options()["kafka.sasl.jaas.config"] == "s3cr3t"
    assert sorted(config.secrets()) == [
        ("kafka.sasl.jaas.config", "s3cr3t"),
        ("names", "s3cr3t"),
        ("odd", "s3cr3t"),
        ("salt", "pepper"),
        ("uri", "s3cr3t"),
    ]


def test_option_derived_from_a_secret_is_a_secret() -> None:
    texts: list[Any] = [secret(), ["a", secret()], {"a": [secret()]}]
    assert [option_text(text) for text in texts] == ["s3cr3t", "a,s3cr3t", '{"a": ["s3cr3t"]}']
    assert all("s3cr3t" not in repr(option_text(text)) for text in texts)
    assert repr(option_text(secret())) == "'${env:PW}'"
    assert [type(option_text(value)) for value in (True, "a", ["a"])] == [str, str, str]


def test_secret_in_an_option_that_takes_one_value_or_a_list_stays_a_secret() -> None:
    assert repr(restore_secrets(("s3cr3t",), secret())) == "('${env:PW}',)"
    assert repr(restore_secrets({"a": ["s3cr3t"]}, {"a": secret()})) == "{'a': ['${env:PW}']}"
