"""What every plugin has to keep, as tests.

A plugin's author subclasses the kit of its kind, or for a login or a catalog this one::

    class TestAcmeLogin(PluginConformance):
        plugin_class = AcmeLogin

        def config(self, folder):
            return {"user": "acme", "password": "a secret of acme's"}
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
#: Unpickles a plugin where nothing of headrace's or of Spark's runs, and no network is.
_WORKER = """
import pickle, socket, sys

def refuse(*_, **__):
    raise AssertionError("importing the plugin's module reaches for a network")

socket.socket.connect = refuse
plugin = pickle.load(sys.stdin.buffer)
assert "pyspark" not in sys.modules, "importing the plugin's module imports pyspark: do so in the functions that use it"
print(repr(plugin.config), end="")
"""


class PluginConformance(ABC):
    """Subclass it, and pytest collects what applies to ``plugin_class``."""

    plugin_class: ClassVar[type[Plugin]]
    #: Options that the plugin refuses, each in the place of what ``config`` gives: ``{"path": "/not/there"}``.
    refused: ClassVar[Sequence[Mapping[str, Any]]] = ()

    @abstractmethod
    def config(self, folder: Path) -> Mapping[str, Any]:
        """Options with which the plugin works. What they name may be made in ``folder``, which is empty."""

    def use(self, plugin: Any) -> None:
        """Asks the plugin what a pipeline asks it before it starts."""
        plugin.check()
        list(plugin.warnings())
        plugin.session_conf()
        plugin.parts()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "plugin_class"):
            collect_what_applies(cls)

    @pytest.fixture
    def plugin(self, tmp_path: Path) -> Any:
        """The plugin with a folder of its own."""
        return self.plugin_class(self.config(tmp_path))

    def test_it_says_what_it_is(self) -> None:
        item = self._registration()
        PluginRegistry().load(item)
        try_construction(item, self.plugin_class)
        if item.name in registry().names(item.kind):
            assert registry().get(item.kind, item.name) is self.plugin_class, "another plugin has its name"

    def test_its_options_are_documented(self) -> None:
        schema = plugin_schema(self._registration(), self.plugin_class)
        model = self.plugin_class.Config
        if not model.model_fields:
            return
        assert vars(model).get("__doc__"), f"{model.__name__} does not say what it is"
        options = schema["properties"]
        silent = [key for key in model.keys() if not options.get(key, {}).get("description")]  # noqa: SIM118 - no mapping
        assert not silent, "no `#:` comment says what these are"

    def test_a_wrong_option_is_named_with_its_fix(self, tmp_path: Path) -> None:
        options = self.config(tmp_path)
        assert self._refuse(options) is None
        required = [f.alias or name for name, f in self.plugin_class.Config.model_fields.items() if f.is_required()]
        wrong: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [
            *(({key: None}, {name: options[name] for name in options if name != key}) for key in required),
            *((one, {**options, **one}) for one in self.refused),
        ]
        if not any(
            fnmatchcase(_UNKNOWN, pattern) for pattern in self.plugin_class.Config.passthrough_patterns(options)
        ):
            wrong.append(({_UNKNOWN: 1}, {**options, _UNKNOWN: 1}))
        for named, block in wrong:
            error = self._refuse(block)
            assert isinstance(error, ConfigError), f"{named} is not refused"
            assert any(name in str(error) for name in named), "the error does not name the option"
            assert "fix:" in str(error), "the error does not say what to do"

    def test_its_secrets_are_shown_nowhere(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        model = self.plugin_class.Config
        for name, field in model.model_fields.items():
            is_open_text = "str" in str(field.annotation) and "SecretStr" not in str(field.annotation)
            assert not (has_secret_name(name) and is_open_text), f"{name} is called like a secret: make it a SecretStr"
        for options, secrets in self._list_secrets(self.config(tmp_path)):
            plugin = self.plugin_class(dict(options))
            self.use(plugin)
            out, err = capfd.readouterr()
            shown = [repr(plugin), str(plugin), repr(plugin.config), str(plugin.config), *plugin.warnings()]
            shown += [out, err, caplog.text, str(self._refuse({**options, _UNKNOWN: 1}))]
            shown += [str(self._refuse({**options, **wrong})) for wrong in self.refused]
            for text in shown:
                assert not any(secret in text for secret in secrets), text

    def test_construction_runs_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("construction reaches for Spark or for a network")

        config = self.config(tmp_path)
        before = sorted(tmp_path.rglob("*"))
        with monkeypatch.context() as patch:
            patch.setattr("py4j.java_gateway.GatewayClient.send_command", refuse)
            patch.setattr("pyspark.sql.SparkSession.getActiveSession", refuse)
            patch.setattr(socket.socket, "connect", refuse)
            self.plugin_class(config)
        assert sorted(tmp_path.rglob("*")) == before

    def test_it_goes_to_another_process(self, plugin: Any) -> None:
        twin = pickle.loads(pickle.dumps(plugin))  # noqa: S301 - our own
        assert type(twin) is self.plugin_class
        assert twin.config == plugin.config
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        other = subprocess.run(
            [sys.executable, "-c", _WORKER],
            input=pickle.dumps(plugin),
            capture_output=True,
            env=environment,
            check=False,
        )
        assert other.stdout.decode() == repr(plugin.config), other.stderr.decode()

    def test_its_options_stay_as_they_were(self, tmp_path: Path) -> None:
        options = self.config(tmp_path)
        before = copy.deepcopy(options)
        plugin = self.plugin_class(options)
        config = copy.deepcopy(plugin.config)
        self.use(plugin)
        assert options == before
        assert plugin.config == config

    def test_two_of_it_share_nothing(self, tmp_path: Path) -> None:
        folders = tmp_path / "one", tmp_path / "other"
        for folder in folders:
            folder.mkdir()
        one, other = (self.plugin_class(self.config(folder)) for folder in folders)
        before = self._class_state(), repr(vars(other))
        self.use(one)
        assert (self._class_state(), repr(vars(other))) == before

    def test_it_leaves_errors_that_are_not_its_own(self, plugin: Any) -> None:
        assert plugin.explain(ValueError("nobody says this")) is None

    @classmethod
    def find_kind(cls) -> str:
        """The kind of the plugin, as the registry calls it."""
        for kind, path in BASES.items():
            module, _, name = path.partition(":")
            if issubclass(cls.plugin_class, getattr(sys.modules.get(module), name, ())):
                return kind
        raise AssertionError(f"{cls.plugin_class} derives from no kind of plugin")

    def _registration(self) -> Registration:
        """As a hook would bring it."""
        return Registration(self.find_kind(), getattr(self.plugin_class, "name", ""), self.plugin_class, "the kit")

    def _refuse(self, options: Mapping[str, Any]) -> Exception | None:
        """What a user is told of these options; None when the plugin takes them."""
        try:
            self.plugin_class(self.plugin_class.Config.model_validate(dict(options))).check()
        except ValidationError as error:
            return Document(dict(options), "pipeline.yaml").invalid(error)
        except Exception as error:  # noqa: BLE001 - a test says what it must be
            return error
        return None

    def _list_secrets(self, options: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Sequence[str]]]:
        """Options with secrets, and these: those that ``config`` gives, and every other where the model takes any text."""
        yield options, [str(secret) for _, secret in self.plugin_class(dict(options)).config.secrets()]
        for name, field in self.plugin_class.Config.model_fields.items():
            key = field.alias or name
            if key not in options and "SecretStr" in str(field.annotation):
                canary = f"canary-{uuid4().hex}"
                block = {**options, key: SecretStr(canary)}
                if self._refuse(block) is None:
                    yield block, [canary]

    def _class_state(self) -> dict[str, str]:
        """What the plugin's classes keep that can change."""
        classes = [cls for cls in self.plugin_class.__mro__ if not cls.__module__.startswith("headrace.sdk.")]
        return {
            f"{cls.__name__}.{name}": repr(value)
            for cls in classes
            for name, value in vars(cls).items()
            if isinstance(value, _MUTABLE) and not name.startswith("__")
        }
