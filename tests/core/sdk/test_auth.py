"""Auth provider from docs/plugins.md, installed as a third-party distribution."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.pages import find_block

from headrace import ConfigError, Pipeline
from headrace.registry.plugin_registry import registry
from headrace_sources import KafkaSource

BLOCK = find_block("docs/plugins.md", "python", "(AuthProvider)")
SECRET = 'hush "4711\\'
AUTH = {"scram": {"username": "me", "password": SECRET}}


@pytest.fixture(autouse=True)
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("acme_scram")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # pydantic resolves the types of fields there
    exec(compile(BLOCK, "docs/plugins.md", "exec", dont_inherit=True), module.__dict__)
    known = registry()
    monkeypatch.setattr(known, "_registrations", list(known._registrations))
    known.register(module, "acme 1.0")


def test_source_authenticates_with_the_provider() -> None:
    kafka = KafkaSource({"bootstrap.servers": "b:9096", "subscribe": "orders", "auth": AUTH})
    options = kafka._options(())
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="hush \\"4711\\\\";'
    )
    assert "4711" not in repr(kafka.config)


def test_provider_needs_brokers_and_excludes_other_credentials(tmp_path: Path) -> None:
    block = {"subscribe": "orders", "auth": AUTH}
    with pytest.raises(ConfigError, match=r"needs `bootstrap\.servers`"):
        KafkaSource(block)
    with pytest.raises(ConfigError, match="name exactly one auth provider, not 'scram', 'msk-iam'"):
        KafkaSource({**block, "bootstrap.servers": "b:9096", "auth": {**AUTH, "msk-iam": {}}})
    config = {
        "name": "orders",
        "source": {"kafka": {**block, "bootstrap.servers": "b:9096"}, "value": "json"},
        "sink": "console",
        "checkpoint": str(tmp_path),
    }
    plan = Pipeline.from_dict(config).plan
    assert "scram" in [plugin.name for plugin in plan.plugins]
    assert SECRET not in plan.redact(f"the password {SECRET}")
