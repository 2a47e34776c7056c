"""Test kit for all plugins.

Subclass the kit of your plugin's kind. For an auth provider, a catalog or a file system, subclass this one::

    class TestAcmeLogin(PluginConformance):
        plugin_class = AcmeLogin

        def config(self, folder):
            return {"user": "acme", "password": "s3cret"}
"""

from __future__ import annotations

import copy
import os
import pickle
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from pydantic import SecretStr, ValidationError

from headrace.config.json_schema import plugin_schema
from headrace.config.yaml_document import Document
from headrace.errors import ConfigError
from headrace.registry.plugin_registry import PluginRegistry, registry
from headrace.registry.registration import Registration
from headrace.registry.validation import BASES, try_construction
from headrace.sdk.plugin import Plugin
from headrace.secret_values import has_secret_name
from headrace.testing._internal.claims import collect_what_applies

_UNKNOWN = "no_such_option"
_MUTABLE = (list, dict, set, bytearray)
#: Unpickles a plugin in a new process without Spark and without a network.
_WORKER = """
import pickle, socket, sys

def refuse(*_, **__):
    raise AssertionError("importing the plugin's module opens a network connection")

socket.socket.connect = refuse
plugin = pickle.load(sys.stdin.buffer)
assert "pyspark" not in sys.modules, "importing the plugin's module imports pyspark; import it in the functions that use it"
print(repr(plugin.config), end="")
"""


class PluginConformance(ABC):
    """Tests of any plugin. Subclass it, and pytest collects the tests that apply to ``plugin_class``."""

    plugin_class: ClassVar[type[Plugin]]
    #: Invalid options. Each entry overrides the options of ``config``: ``{"path": "/not/there"}``.
    refused: ClassVar[Sequence[Mapping[str, Any]]] = ()

    @abstractmethod
    def config(self, folder: Path) -> Mapping[str, Any]:
        """Return valid options. Files that they name may be created in ``folder``, which is empty."""

    def use(self, plugin: Any) -> None:
        """Call the methods of the plugin that a pipeline calls before it starts."""
        plugin.check()
        list(plugin.warnings())
        list(plugin.notes())
        plugin.session_conf()
        plugin.parts()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "plugin_class"):
            collect_what_applies(cls)

    @pytest.fixture
    def plugin(self, tmp_path: Path) -> Any:
        """Return the plugin with its own folder."""
        return self.plugin_class(self.config(tmp_path))

    def test_plugin_is_registered_under_its_name(self) -> None:
        item = self._registration()
        PluginRegistry().load(item)
        try_construction(item, self.plugin_class)
        if item.name in registry().names(item.kind):
            assert registry().get(item.kind, item.name) is self.plugin_class, "another plugin has the same name"

    def test_options_are_documented(self) -> None:
        schema = plugin_schema(self._registration(), self.plugin_class)
        model = self.plugin_class.Config
        if not model.model_fields:
            return
        assert vars(model).get("__doc__"), f"{model.__name__} has no docstring"
        options = schema["properties"]
        undocumented = [key for key in model.keys() if not options.get(key, {}).get("description")]  # noqa: SIM118 - not a mapping
        assert not undocumented, "these options have no docstring"

    def test_invalid_option_is_reported_with_a_fix(self, tmp_path: Path) -> None:
        options = self.config(tmp_path)
        assert self._refuse(options) is None
        required = [f.alias or name for name, f in self.plugin_class.Config.model_fields.items() if f.is_required()]
        invalid: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [
            *(({key: None}, {name: options[name] for name in options if name != key}) for key in required),
            *((override, {**options, **override}) for override in self.refused),
        ]
        if not any(
            fnmatchcase(_UNKNOWN, pattern) for pattern in self.plugin_class.Config.passthrough_patterns(options)
        ):
            invalid.append(({_UNKNOWN: 1}, {**options, _UNKNOWN: 1}))
        for overrides, block in invalid:
            error = self._refuse(block)
            assert isinstance(error, ConfigError), f"{overrides} is not rejected"
            assert any(name in str(error) for name in overrides), "the error does not name the option"
            assert "fix:" in str(error), "the error has no fix"

    def test_secrets_are_never_printed(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        model = self.plugin_class.Config
        for name, field in model.model_fields.items():
            is_open_text = "str" in str(field.annotation) and "SecretStr" not in str(field.annotation)
            assert not (has_secret_name(name) and is_open_text), f"{name} has the name of a secret; make it a SecretStr"
        for options, secrets in self._list_secrets(self.config(tmp_path)):
            plugin = self.plugin_class(dict(options))
            self.use(plugin)
            out, err = capfd.readouterr()
            shown = [repr(plugin), str(plugin), repr(plugin.config), str(plugin.config), *plugin.warnings()]
            shown += [out, err, caplog.text, str(self._refuse({**options, _UNKNOWN: 1}))]
            shown += [str(self._refuse({**options, **override})) for override in self.refused]
            for text in shown:
                assert not any(secret in text for secret in secrets), text

    def test_constructor_has_no_side_effects(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("the constructor uses Spark or a network")

        config = self.config(tmp_path)
        before = sorted(tmp_path.rglob("*"))
        with monkeypatch.context() as patch:
            patch.setattr("py4j.java_gateway.GatewayClient.send_command", refuse)
            patch.setattr("pyspark.sql.SparkSession.getActiveSession", refuse)
            patch.setattr(socket.socket, "connect", refuse)
            self.plugin_class(config)
        assert sorted(tmp_path.rglob("*")) == before

    def test_plugin_is_picklable(self, plugin: Any) -> None:
        copied = pickle.loads(pickle.dumps(plugin))  # noqa: S301 - our own data
        assert type(copied) is self.plugin_class
        assert copied.config == plugin.config
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        other = subprocess.run(
            [sys.executable, "-c", _WORKER],
            input=pickle.dumps(plugin),
            capture_output=True,
            env=environment,
            check=False,
        )
        assert other.stdout.decode() == repr(plugin.config), other.stderr.decode()

    def test_use_does_not_modify_the_options(self, tmp_path: Path) -> None:
        options = self.config(tmp_path)
        before = copy.deepcopy(options)
        plugin = self.plugin_class(options)
        config = copy.deepcopy(plugin.config)
        self.use(plugin)
        assert options == before
        assert plugin.config == config

    def test_instances_share_no_state(self, tmp_path: Path) -> None:
        folders = tmp_path / "one", tmp_path / "other"
        for folder in folders:
            folder.mkdir()
        one, other = (self.plugin_class(self.config(folder)) for folder in folders)
        before = self._class_state(), repr(vars(other))
        self.use(one)
        assert (self._class_state(), repr(vars(other))) == before

    def test_explain_ignores_unrelated_errors(self, plugin: Any) -> None:
        assert plugin.explain(ValueError("an unrelated error")) is None

    @classmethod
    def find_kind(cls) -> str:
        """Return the kind of the plugin in the registry."""
        for kind, path in BASES.items():
            module, _, name = path.partition(":")
            if issubclass(cls.plugin_class, getattr(sys.modules.get(module), name, ())):
                return kind
        raise AssertionError(f"{cls.plugin_class} is not a subclass of a kind of plugin")

    def _registration(self) -> Registration:
        """Return the registration that a hook would pass."""
        return Registration(self.find_kind(), getattr(self.plugin_class, "name", ""), self.plugin_class, "the kit")

    def _refuse(self, options: Mapping[str, Any]) -> Exception | None:
        """Return the error for these options; None if the plugin accepts them."""
        try:
            self.plugin_class(self.plugin_class.Config.model_validate(dict(options))).check()
        except ValidationError as error:
            return Document(dict(options), "pipeline.yaml").invalid(error)
        except Exception as error:  # noqa: BLE001 - the tests check its type
            return error
        return None

    def _list_secrets(self, options: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Sequence[str]]]:
        """Yield options and their secrets: those of ``config``, and every other secret option that accepts any string."""
        yield options, [str(secret) for _, secret in self.plugin_class(dict(options)).config.secrets()]
        for name, field in self.plugin_class.Config.model_fields.items():
            key = field.alias or name
            if key not in options and "SecretStr" in str(field.annotation):
                canary = f"canary-{uuid4().hex}"
                block = {**options, key: SecretStr(canary)}
                if self._refuse(block) is None:
                    yield block, [canary]

    def _class_state(self) -> dict[str, str]:
        """Return the mutable attributes of the plugin's classes."""
        classes = [cls for cls in self.plugin_class.__mro__ if not cls.__module__.startswith("headrace.sdk.")]
        return {
            f"{cls.__name__}.{name}": repr(value)
            for cls in classes
            for name, value in vars(cls).items()
            if isinstance(value, _MUTABLE) and not name.startswith("__")
        }
