"""Authentication plugins that each break one requirement of every plugin, and the kit test that must detect it."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from pydantic import SecretStr, model_validator
from tests.support.kit_run import Broken, fails

from headrace.errors import ConfigError, HeadraceError, RetriableError
from headrace.scaffold.templates.auth import Example, ExampleConfig
from headrace.testing.plugins import PluginConformance

BROKEN: Broken = {}
SHARED_USERS: list[str] = []


class Login(Example):
    """Correct plugin of the template with a check of its user name; the others derive from it."""

    def check(self, spark: Any = None) -> None:
        if not self.config.username:
            raise ConfigError("username is empty", where="auth login", fix="give the name of a user")


class AuthKit(PluginConformance):
    plugin_class = Login
    refused = ({"username": ""},)

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"username": "orders", "password": "hush and hush"}


@fails(BROKEN, "test_plugin_is_registered_under_its_name")
class HasUnsupportedApiVersion(Login):
    api_version = 0


@fails(BROKEN, "test_plugin_is_registered_under_its_name")
class HasInvalidName(Login):
    name = "my login"


@fails(BROKEN, "test_plugin_is_registered_under_its_name")
class HasNameOfAnotherPlugin(Login):
    name = "msk-iam"


@fails(BROKEN, "test_plugin_is_registered_under_its_name")
class DeclaresJarsAsOneString(Login):
    jars: ClassVar[Any] = {"3.5": "org.example:login_2.12:1.0"}


@fails(BROKEN, "test_plugin_is_registered_under_its_name")
class RequiresOptionsWhenListed(Login):
    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        if "username" not in self.config.model_fields_set:
            raise ValueError("who?")


class UndocumentedOptionConfig(ExampleConfig):
    """Options without a description."""

    mechanism: str = "SCRAM-SHA-512"


@fails(BROKEN, "test_options_are_documented")
class HasUndocumentedOption(Login):
    Config = UndocumentedOptionConfig


class UndocumentedConfig(ExampleConfig):
    mechanism: str = "SCRAM-SHA-512"
    """Hash algorithm of the password."""


@fails(BROKEN, "test_options_are_documented")
class HasUndocumentedConfig(Login):
    Config = UndocumentedConfig


class OpenConfig(ExampleConfig):
    """Options that accept any key."""

    @model_validator(mode="before")
    @classmethod
    def _reject_unknown_keys(cls, data: Any) -> Any:
        return data


@fails(BROKEN, "test_invalid_option_is_reported_with_a_fix")
class AcceptsAnyOption(Login):
    Config = OpenConfig


@fails(BROKEN, "test_invalid_option_is_reported_with_a_fix")
class OmitsNameOfOption(Login):
    def check(self, spark: Any = None) -> None:
        if not self.config.username:
            raise ConfigError("it is empty", fix="fill it in")


@fails(BROKEN, "test_invalid_option_is_reported_with_a_fix")
class OmitsFix(Login):
    def check(self, spark: Any = None) -> None:
        if not self.config.username:
            raise ConfigError("username is empty")


@fails(BROKEN, "test_invalid_option_is_reported_with_a_fix")
class RaisesKeyError(Login):
    def check(self, spark: Any = None) -> None:
        if not self.config.username:
            raise KeyError("username")


@fails(BROKEN, "test_invalid_option_is_reported_with_a_fix")
class AcceptsInvalidOption(Login):
    def check(self, spark: Any = None) -> None:
        pass


@fails(BROKEN, "test_secrets_are_never_printed")
class PrintsItsSecret(Login):
    def check(self, spark: Any = None) -> None:
        super().check(spark)
        print(self.config.password.get_secret_value())  # noqa: T201 - this output is the defect


@fails(BROKEN, "test_secrets_are_never_printed")
class LogsItsSecret(Login):
    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        if self.config.model_fields_set:
            logging.getLogger("login").warning("as %s", self.config.password.get_secret_value())


@fails(BROKEN, "test_secrets_are_never_printed")
class HasSecretInRepr(Login):
    def __repr__(self) -> str:
        return f"login {self.config.password.get_secret_value()}"


@fails(BROKEN, "test_secrets_are_never_printed")
class HasSecretInWarning(Login):
    def warnings(self) -> Iterable[str]:
        yield f"{self.config.password.get_secret_value()} is short"


@fails(BROKEN, "test_secrets_are_never_printed")
class HasSecretInError(Login):
    def check(self, spark: Any = None) -> None:
        if not self.config.username:
            secret = self.config.password.get_secret_value()
            raise ConfigError(f"username is empty, and {secret} is not", fix="give the name of a user")


class OpenPasswordConfig(ExampleConfig):
    """User and password as plain strings."""

    password: str  # type: ignore[assignment]
    """Password that is printed."""


@fails(BROKEN, "test_secrets_are_never_printed")
class DeclaresSecretAsPlainString(Login):
    Config = OpenPasswordConfig


@fails(BROKEN, "test_constructor_has_no_side_effects")
class UsesSparkInConstructor(Login):
    def __init__(self, config: Any = None, **options: Any) -> None:
        from pyspark.sql import SparkSession

        super().__init__(config, **options)
        SparkSession.getActiveSession()


@fails(BROKEN, "test_constructor_has_no_side_effects")
class ContactsServerInConstructor(Login):
    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        with suppress(OSError), socket.socket() as one:
            one.connect(("127.0.0.1", 9))


@fails(BROKEN, "test_plugin_is_picklable")
class KeepsALock(Login):
    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.lock = threading.Lock()


@fails(BROKEN, "test_plugin_is_picklable")
class LosesConfigWhenPickled(Login):
    def __getstate__(self) -> dict[str, Any]:
        return {"config": ExampleConfig(username="nobody", password=SecretStr("none"))}


@fails(BROKEN, "test_use_does_not_modify_the_options")
class RemovesFromItsOptions(Login):
    def __init__(self, config: Any = None, **options: Any) -> None:
        options_dict = config if isinstance(config, dict) else {}
        super().__init__(dict(options_dict) or config, **options)
        options_dict.pop("username", None)


@fails(BROKEN, "test_use_does_not_modify_the_options")
class ChangesItsConfig(Login):
    def check(self, spark: Any = None) -> None:
        super().check(spark)
        self.config.__dict__["username"] = "somebody"


@fails(BROKEN, "test_instances_share_no_state")
class SharesClassAttribute(Login):
    users: ClassVar[set[str]] = set()

    def check(self, spark: Any = None) -> None:
        super().check(spark)
        self.users.add(f"{len(self.users)}")


@fails(BROKEN, "test_instances_share_no_state")
class SharesModuleList(Login):
    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.users = SHARED_USERS

    def check(self, spark: Any = None) -> None:
        super().check(spark)
        self.users.append(self.config.username)


@fails(BROKEN, "test_explain_ignores_unrelated_errors")
class ExplainsEverything(Login):
    def explain(self, error: BaseException) -> HeadraceError | None:
        return RetriableError("try again")
