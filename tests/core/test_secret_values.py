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
from headrace.secret_values import Secret, has_named_secret, has_secret_name, hide_credentials, restore_secrets


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


@pytest.mark.parametrize("start", ["a=", '"token"', "a:b:c:d/", "x.password", "password:", 'a"=\\"'])
def test_search_for_secrets_in_texts_takes_linear_time(start: str) -> None:
    begin = time.process_time()
    has_named_secret(start * 30_000)
    hide_credentials(start * 30_000)
    assert time.process_time() - begin < 3


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
