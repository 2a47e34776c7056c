"""Registry of plugins. A broken plugin affects only its own users."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.errors import PluginError
from headrace.registry import entry_points
from headrace.registry.plugin_errors import as_plugin_error
from headrace.registry.plugin_registry import PluginRegistry, registry
from headrace.registry.registration import Registration
from headrace.registry.validation import try_construction
from headrace.sdk.changes import Changes
from headrace.sdk.config import Config
from headrace.sdk.hookspecs import hookimpl
from headrace.sdk.transform import Transform


class Shout(Transform):
    name = "shout"
    api_version = 1

    def apply(self, changes: Changes) -> Changes:
        return changes


def module_with(transforms: Mapping[str, Any]) -> object:
    """Return the object of a distribution's entry point, with one hook."""

    class Module:
        @staticmethod
        @hookimpl
        def headrace_transforms() -> Mapping[str, Any]:
            return transforms

    return Module


def registry_with(*targets: tuple[str, Any]) -> PluginRegistry:
    """Return a registry with a distribution for each name and target."""
    found = PluginRegistry()
    for i, (name, target) in enumerate(targets):
        found.register(module_with({name: target}), f"headrace-{'abc'[i]} 1.{i}")
    return found


def error_of(found: PluginRegistry, name: str, kind: str = "transform") -> str:
    with pytest.raises(PluginError) as raised:
        found.get(kind, name)
    return str(raised.value)


class Installed:
    """Fake distributions with one entry point each, as found by importlib.metadata."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **loads: Any) -> None:
        points = [
            SimpleNamespace(name=name, dist=SimpleNamespace(name=f"headrace-{name}", version="0.1"), load=load)
            for name, load in loads.items()
        ]
        monkeypatch.setattr(entry_points, "entry_points", lambda group: points if group == "headrace" else [])


class TestFound:
    def test_built_in_plugins_are_found_by_entry_points(self) -> None:
        assert registry().names("sink") >= ["console"]
        assert registry().names("transform") == [
            *(
                "cast",
                "compute",
                "drop",
                "expand",
                "explode",
                "filter",
                "flatten",
                "insert",
                "keep",
                "lookup",
                "mask",
                "outbox",
                "rename",
                "timestamp",
            ),
            "unwrap",
        ]
        assert {r.distribution.split()[0] for r in registry().registrations() if r.kind == "dialect"} == {"headrace"}

    def test_class_is_returned_unchanged(self) -> None:
        assert registry_with(("shout", Shout)).get("transform", "shout") is Shout

    def test_kinds_have_separate_names(self) -> None:
        assert "unknown sink 'shout'" in error_of(registry_with(("shout", Shout)), "shout", "sink")

    def test_unknown_name_is_reported_with_suggestions(self) -> None:
        assert error_of(registry_with(("shout", Shout)), "shuot") == (
            "unknown transform 'shuot'\n  fix: did you mean 'shout'?"
        )

    def test_names_and_registrations_are_sorted(self) -> None:
        found = registry_with(("b", Shout), ("a", Shout))
        assert found.names("transform") == ["a", "b"]
        assert [(r.name, r.distribution) for r in found.registrations()] == [
            ("a", "headrace-b 1.1"),
            ("b", "headrace-a 1.0"),
        ]


class TestLazy:
    def test_module_is_imported_when_its_plugin_is_requested(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "lazily_imported.py").write_text(
            "from tests.core.registry.test_plugin_registry import Shout as Whisper\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        found = registry_with(("whisper", "lazily_imported:Whisper"))
        assert found.names("transform") == ["whisper"]
        assert "lazily_imported" not in sys.modules
        assert found.get("transform", "whisper").name == "shout"
        assert sys.modules.pop("lazily_imported").__name__ == "lazily_imported"

    def test_list_of_names_needs_no_pydantic(self) -> None:
        import subprocess

        code = "import sys; from headrace.registry.plugin_registry import registry; registry().names('sink'); print('pydantic' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "False\n"

    def test_missing_module_is_reported(self) -> None:
        assert error_of(registry_with(("shout", "no_such_module:Shout")), "shout") == (
            "the transform 'shout' of headrace-a 1.0 cannot be imported: "
            "ModuleNotFoundError: No module named 'no_such_module'\n  fix: see the error above; reinstall or report it"
        )

    def test_first_error_is_cached(self) -> None:
        with pytest.raises(PluginError) as raised:
            registry_with(("shout", "no_such_module:Shout")).get("transform", "shout")
        assert isinstance(raised.value.__cause__, ModuleNotFoundError)

    def test_missing_class_is_reported(self) -> None:
        assert "AttributeError: module 'json' has no attribute 'Shout'" in error_of(
            registry_with(("shout", "json:Shout")), "shout"
        )

    def test_missing_pyspark_is_reported_with_the_extra(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "wants_spark.py").write_text("import pyspark.sql\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setitem(sys.modules, "pyspark", None)
        monkeypatch.setitem(sys.modules, "pyspark.sql", None)
        assert error_of(registry_with(("shout", "wants_spark:Shout")), "shout").endswith(
            "fix: pip install 'headrace[spark]'"
        )


class TestRejected:
    def test_duplicate_is_reported_with_both_distributions(self) -> None:
        found = registry_with(("shout", Shout), ("shout", Shout))
        assert error_of(found, "shout") == (
            "the transform 'shout' is registered twice, by headrace-a 1.0 and headrace-b 1.1\n"
            "  fix: uninstall one of them, or disable it: HEADRACE_DISABLE_PLUGINS=headrace-b"
        )
        assert found.all("transform") == []

    def test_other_api_version_is_rejected(self) -> None:
        class New(Shout):
            api_version = 2

        assert error_of(registry_with(("shout", New)), "shout") == (
            "the transform 'shout' of headrace-a 1.0 was written for plugin API 2; this headrace has 1\n"
            "  fix: install a newer headrace: pip install --upgrade headrace"
        )

    @pytest.mark.parametrize(
        ("version", "error"),
        [
            (1, "was written for plugin API 1; this headrace supports 2 to 3\n  fix: install a newer headrace-a: "),
            (2, None),
            (3, None),
            (4, "was written for plugin API 4; this headrace supports 2 to 3\n  fix: install a newer headrace: "),
            ("3", "has an api_version that is not a number: '3'"),
        ],
    )
    def test_previous_api_version_is_accepted(
        self, version: Any, error: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The supported range is patched to two versions."""
        monkeypatch.setattr("headrace.sdk.plugin.OLDEST_API_VERSION", 2)
        monkeypatch.setattr("headrace.sdk.plugin.API_VERSION", 3)
        found = registry_with(("shout", type("Old", (Shout,), {"api_version": version})))
        if error is None:
            assert found.get("transform", "shout").api_version == version
        else:
            assert error in error_of(found, "shout")

    def test_missing_api_version_is_rejected(self) -> None:
        class Silent(Transform):
            name = "silent"

            def apply(self, changes: Changes) -> Changes:
                return changes

        assert error_of(registry_with(("silent", Silent)), "silent") == (
            "the transform 'silent' of headrace-a 1.0 has no api_version\n  fix: give it `api_version = 1`"
        )

    @pytest.mark.parametrize("target", [dict, 7, "headrace_sinks.console:ConsoleSink"])
    def test_class_of_another_kind_is_rejected(self, target: Any) -> None:
        text = error_of(registry_with(("shout", target)), "shout")
        assert text.startswith("the transform 'shout' of headrace-a 1.0 is not a Transform: ")
        assert text.endswith("fix: derive its class from headrace.sdk.transform.Transform")

    @pytest.mark.parametrize("name", ["../up", "", "a b", "'; --", "a\x1b[31mb", "[red]", "a/b", "a\n"])
    def test_invalid_name_is_rejected(self, name: str) -> None:
        text = error_of(registry_with((name, "no_such_module:Bad")), name)
        assert text.startswith(f"the transform {name!r} of headrace-a 1.0 has an invalid name")

    def test_broken_plugin_does_not_hide_others(self) -> None:
        found = registry_with(("good", Shout), ("bad", "no_such_module:Bad"))
        assert found.all("transform") == [("good", Shout)]


class TestBroken:
    def test_broken_distribution_is_reported_only_for_missing_plugins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails() -> object:
            raise ImportError("libfoo.so.3: cannot open shared object file")

        Installed(monkeypatch, bad=fails, good=lambda: module_with({"shout": Shout}))
        found = PluginRegistry.from_entry_points()
        assert found.get("transform", "shout") is Shout
        assert [(b.entry_point, b.distribution) for b in found.broken] == [("bad", "headrace-bad 0.1")]
        assert error_of(found, "whisper") == (
            "unknown transform 'whisper'\n"
            "  fix: known here: shout; "
            "not loaded: headrace-bad 0.1 (ImportError: libfoo.so.3: cannot open shared object file)"
        )

    def test_unknown_hook_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Module:
            @staticmethod
            @hookimpl
            def headrace_transform() -> dict[str, Any]:
                return {"shout": Shout}

        Installed(monkeypatch, typo=lambda: Module)
        found = PluginRegistry.from_entry_points()
        assert found.names("transform") == []
        assert "not loaded: headrace-typo 0.1 (PluginValidationError: unknown hook 'headrace_transform'" in error_of(
            found, "shout"
        )

    def test_failing_hook_discards_all_plugins_of_the_distribution(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Module:
            @staticmethod
            @hookimpl
            def headrace_transforms() -> dict[str, Any]:
                return {"shout": Shout}

            @staticmethod
            @hookimpl
            def headrace_sinks() -> dict[str, Any]:
                raise ValueError("no license")

        Installed(monkeypatch, half=lambda: Module)
        found = PluginRegistry.from_entry_points()
        assert list(found.registrations()) == []
        assert "(ValueError: no license)" in error_of(found, "shout")

    def test_hook_that_returns_no_mapping_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Installed(monkeypatch, odd=lambda: module_with(["shout"]))  # type: ignore[arg-type]
        assert "headrace-odd 0.1 (headrace_transforms returns list instead of a mapping of names)" in error_of(
            PluginRegistry.from_entry_points(), "shout"
        )

    def test_exit_is_recorded_and_interrupt_is_raised(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def leave() -> object:
            raise SystemExit("no license")

        def interrupt() -> object:
            raise KeyboardInterrupt

        Installed(monkeypatch, leaves=leave)
        assert "headrace-leaves 0.1 (SystemExit: no license)" in error_of(PluginRegistry.from_entry_points(), "shout")
        Installed(monkeypatch, waits=interrupt)
        with pytest.raises(KeyboardInterrupt):
            PluginRegistry.from_entry_points()


class TestNames:
    """Names of built-in plugins, which other distributions cannot replace."""

    @staticmethod
    def registry_with_own(**others: Any) -> PluginRegistry:
        found = PluginRegistry()
        found.register(module_with({"shout": Shout}), "headrace 0.1.0")
        for name, target in others.items():
            found.register(module_with({"shout": target}), f"{name} 1.0")
        return found

    def test_other_distribution_cannot_replace_a_built_in_plugin(self) -> None:
        class Louder(Shout):
            pass

        found = self.registry_with_own(aaa=Louder, zzz="no_such_module:Louder")
        assert found.get("transform", "shout") is Shout
        assert found.all("transform") == [("shout", Shout)]
        own = [item for item in found.registrations() if item.is_own]
        for item in found.registrations():
            if item not in own:
                with pytest.raises(PluginError, match="has the name of one of headrace's plugins"):
                    found.load(item)

    def test_distribution_of_a_plugin_is_that_of_its_class(self) -> None:
        class Louder(Shout):
            pass

        found = self.registry_with_own(aaa=Louder)
        assert found.distribution_of(Shout()) == "headrace"
        assert found.distribution_of(Louder()) == "aaa"
        assert PluginRegistry().distribution_of(Shout()) is None


class TestDisable:
    def test_one_of_two_plugins_with_the_same_name_is_disabled(self) -> None:
        found = PluginRegistry(disable=["headrace_B"])
        found.register(module_with({"shout": Shout}), "headrace-a 1.0")
        found.disabled.clear()
        assert found.get("transform", "shout") is Shout
        assert found.unknown_disabled == ["headrace-b"]

    def test_plugin_is_disabled_by_name(self) -> None:
        found = PluginRegistry(disable=["shout"])
        found.register(module_with({"shout": Shout, "whisper": Shout}), "headrace-a 1.0")
        assert found.names("transform") == ["whisper"]
        assert error_of(found, "shout") == (
            "the transform 'shout' of headrace-a 1.0 is disabled\n  fix: remove it from HEADRACE_DISABLE_PLUGINS"
        )
        assert found.unknown_disabled == []

    def test_distribution_is_disabled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def crash() -> object:
            raise AssertionError("it was loaded")

        monkeypatch.setenv("HEADRACE_DISABLE_PLUGINS", " Headrace.Bad,")
        Installed(monkeypatch, bad=crash, good=lambda: module_with({"shout": Shout}))
        found = PluginRegistry.from_entry_points()
        assert found.broken == []
        assert error_of(found, "whisper") == (
            "unknown transform 'whisper'\n"
            "  fix: known here: shout; disabled by HEADRACE_DISABLE_PLUGINS: headrace-bad 0.1"
        )


class TestErrorContainment:
    """Errors that a plugin raises while headrace inspects it."""

    @pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no"), GeneratorExit("no"), StopIteration("no")])
    def test_error_is_converted_to_a_plugin_error(self, error: BaseException) -> None:
        with pytest.raises(PluginError) as raised, as_plugin_error("the sink 'x' cannot be built"):
            raise error
        assert raised.value.what == f"the sink 'x' cannot be built: {type(error).__name__}: no"
        assert raised.value.__cause__ is error

    def test_allowed_errors_and_interrupts_are_not_converted(self) -> None:
        with pytest.raises(KeyError), as_plugin_error("x", KeyError):
            raise KeyError("no")
        with pytest.raises(KeyboardInterrupt), as_plugin_error("x"):
            raise KeyboardInterrupt

    def test_constructor_may_read_required_options(self) -> None:
        class Wide(Shout):
            class Config(Config):
                width: int

            def __init__(self, config: Any = None, **options: Any) -> None:
                super().__init__(config, **options)
                self.half = self.config.width / 2

        class Wrong(Wide):
            def __init__(self, config: Any = None, **options: Any) -> None:
                super().__init__({"width": 2})
                self.half = self.wdith / 2  # type: ignore[attr-defined]

        item = Registration("transform", "wide", Wide, "headrace-a 1.0")
        try_construction(item, Wide)
        with pytest.raises(PluginError, match="cannot be built: AttributeError: 'Wrong' object has no attribute"):
            try_construction(item, Wrong)
