"""Software bill of materials of a release. `tox run -e sbom` writes it for an environment of its own."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from tests.support.dist import ROOT

#: As cyclonedx-py writes it.
ENVIRONMENT = {
    "metadata": {"tools": {}},
    "components": [
        {
            "bom-ref": "headrace==1.0",
            "name": "headrace",
            "type": "library",
            "version": "1.0",
            "externalReferences": [{"type": "distribution", "url": "file:///home/me/headrace"}],
        },
        *({"bom-ref": name, "name": name, "type": "library"} for name in ("click", "pandas", "numpy", "cyclonedx-bom")),
    ],
    "dependencies": [
        {"ref": "headrace==1.0", "dependsOn": ["click", "pandas"]},
        {"ref": "pandas", "dependsOn": ["numpy"]},
        {"ref": "cyclonedx-bom", "dependsOn": ["click"]},
        {"ref": "click"},
        {"ref": "numpy"},
    ],
}
JAR = "org.acme:acme:1.2:jar"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / ".ci/sbom.py"))


def test_bill_has_the_requirements_of_headrace_and_the_jars(script: dict[str, Any]) -> None:
    bom = script["complete"](ENVIRONMENT, [(JAR, "ab" * 32)])
    assert [one["name"] for one in bom["components"]] == ["click", "pandas", "numpy", "acme"]
    main = bom["metadata"]["component"]
    assert (main["name"], main["type"], main["purl"]) == ("headrace", "application", "pkg:pypi/headrace@1.0")
    assert "/home/me" not in str(bom)
    jar = bom["components"][-1]
    assert jar["purl"] == "pkg:maven/org.acme/acme@1.2"
    assert jar["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    needs = {item["ref"]: item.get("dependsOn", []) for item in bom["dependencies"]}
    assert needs[main["bom-ref"]] == ["click", "pandas", jar["bom-ref"]]
    refs = {one["bom-ref"] for one in (*bom["components"], main)}
    assert needs.keys() == refs
    assert {ref for refs_of in needs.values() for ref in refs_of} <= refs


def test_bill_has_every_locked_jar(script: dict[str, Any]) -> None:
    from headrace.runtime.jars.artifacts import parse_lock

    locks = [parse_lock(file.read_text(encoding="utf-8")) for file in (ROOT / "plugins").glob("*/*/jars.lock")]
    expected = {(jar.coordinate, jar.sha256) for lock in locks for jars in lock.values() for jar in jars}
    assert len(locks) >= 3
    assert set(script["read_jars"]()) == expected
