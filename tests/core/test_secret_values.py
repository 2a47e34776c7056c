"""A secret is its text where it is used, and is not where it is shown."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

from pydantic import Field, SecretStr

from headrace.sdk import Config
from headrace.sdk.options import option_text
from headrace.secret_values import Secret


class Login(Config):
    """What a catalog wants to know."""

    uri: str
    properties: dict[str, str] = Field(default_factory=dict, alias="catalog.properties")
    names: tuple[str, ...] = ()
    salt: SecretStr | None = None
    passthrough = ("kafka.*",)


def secret() -> Secret:
    return Secret("s3cr3t", "${env:PW}")


def test_a_secret_is_its_text_to_whoever_uses_it() -> None:
    assert secret() == "s3cr3t"
    assert f"{secret()}" == str(secret()) == "s3cr3t"
    assert json.dumps([secret()]) == '["s3cr3t"]'


def test_a_secret_is_shown_as_it_was_written() -> None:
    for kept in (secret(), copy.deepcopy(secret()), pickle.loads(pickle.dumps(secret()))):
        assert repr({"password": kept}) == "{'password': '${env:PW}'}"


def test_a_config_shows_no_secret_and_gives_all_of_them() -> None:
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


def test_an_option_that_is_made_of_a_secret_is_one() -> None:
    texts: list[Any] = [secret(), ["a", secret()], {"a": [secret()]}]
    assert [option_text(text) for text in texts] == ["s3cr3t", "a,s3cr3t", '{"a": ["s3cr3t"]}']
    assert all("s3cr3t" not in repr(option_text(text)) for text in texts)
    assert repr(option_text(secret())) == "'${env:PW}'"
    assert [type(option_text(value)) for value in (True, "a", ["a"])] == [str, str, str]
