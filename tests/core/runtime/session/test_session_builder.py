"""Settings of a new session, and the check of a session that the caller built."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import pytest

from headrace.errors import ConfigError
from headrace.runtime.jars.jar_choice import list_coordinates
from headrace.runtime.java.jvm import JAVA_OPTIONS
from headrace.runtime.session.session_builder import EXTENSIONS, class_path, complete_session_conf, merge_session_conf
from headrace.runtime.session.session_check import list_missing_conf, list_missing_jars
from headrace.runtime.session.spark_support import check_supported, spark_line
from headrace.sdk.config import Config as BaseConfig
from headrace.sdk.plugin import Plugin
from headrace.secret_values import Secret


class Lake(Plugin):
    """Plugin that requires a jar, an extension and a catalog."""

    name = "lake"
    jars: ClassVar = {"3.5": ("org.lake:lake:1",)}
    jvm_class = "org.lake.Lake"
    refuses: ClassVar = {"4.0": "there is no build for it"}

    def session_conf(self) -> dict[str, str]:
        return {EXTENSIONS: "LakeExtension", "spark.sql.catalog.lake": "LakeCatalog", JAVA_OPTIONS: "-Dlake=1"}


class Pond(Plugin):
    """Plugin that requires another extension in addition to the first."""

    name = "pond"
    jars: ClassVar = {"3.5": ("org.lake:lake:1", "org.pond:pond:2")}

    def session_conf(self) -> dict[str, str]:
        return {EXTENSIONS: "PondExtension,LakeExtension", "spark.serializer": "kryo", JAVA_OPTIONS: "-Dpond=2"}


class Sea(Plugin):
    """Plugin that requires another serializer."""

    name = "sea"

    def session_conf(self) -> dict[str, str]:
        return {"spark.serializer": "java"}


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,1024]"])
def test_local_sessions_reject_other_users(master: str) -> None:
    first, second = (complete_session_conf([], {"spark.master": master}, []) for _ in range(2))
    assert first["spark.authenticate"] == "true"
    assert first["spark.driver.bindAddress"] == first["spark.driver.host"] == "127.0.0.1"
    assert first["spark.ui.enabled"] == "false"
    own = [conf.get("spark.authenticate.secret") for conf in (first, second)]
    if master == "local[2]":  # Spark makes one itself
        assert own == [None, None]
    else:
        assert own[0] != own[1]
        assert all(isinstance(secret, Secret) and len(secret) == 64 for secret in own)


def test_clusters_have_their_own_authentication() -> None:
    assert not [key for key in complete_session_conf([], {"spark.master": "yarn"}, []) if "authenticate" in key]


def test_lists_are_joined_without_duplicates() -> None:
    assert merge_session_conf([Lake(), Pond()]) == {
        EXTENSIONS: "LakeExtension,PondExtension",
        JAVA_OPTIONS: "-Dlake=1 -Dpond=2",
        "spark.sql.catalog.lake": "LakeCatalog",
        "spark.serializer": "kryo",
    }


def test_conflicting_settings_of_two_plugins_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"different values of spark\.serializer: 'kryo' and 'java'"):
        merge_session_conf([Pond(), Sea()])


def test_jars_of_a_spark_version_are_listed_once() -> None:
    assert list_coordinates([Lake(), Pond()], spark_line("3.5.7")) == ["org.lake:lake:1", "org.pond:pond:2"]
    assert list_coordinates([Lake()], "4.0") == []


def test_unsupported_spark_version_is_rejected() -> None:
    check_supported([Lake()], "3.5")
    with pytest.raises(ConfigError, match=r"'lake' does not work on Spark 4\.0: there is no build for it"):
        check_supported([Lake()], "4.0")


def test_jars_are_on_local_class_path_and_sent_to_cluster_executors() -> None:
    assert class_path([], listed="", is_local=True) == {}
    assert class_path([], listed="/a.jar", is_local=True) == {"spark.jars": "/a.jar"}
    assert class_path(["/b.jar"], listed="", is_local=True) == {"spark.driver.extraClassPath": "/b.jar"}
    assert class_path(["/c.jar"], listed="/a.jar,/b.jar", is_local=True) == {
        "spark.driver.extraClassPath": "/a.jar:/b.jar:/c.jar"
    }
    assert class_path(["/c.jar"], listed="/a.jar", is_local=False) == {"spark.jars": "/a.jar,/c.jar"}


def test_settings_of_the_pipeline_override_those_of_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER", raising=False)
    conf = complete_session_conf([Pond()], {"spark.serializer": "mine", "spark.driver.memory": "8g"}, ["/a.jar"])
    assert (conf["spark.serializer"], conf["spark.driver.memory"]) == ("mine", "8g")
    assert (conf["spark.master"], conf["spark.driver.extraClassPath"]) == ("local[*]", "/a.jar")
    assert conf[JAVA_OPTIONS].startswith("-Dpond=2 -XX:+UseParallelGC ")
    cluster = complete_session_conf([], {"spark.master": "yarn"}, ["/a.jar"])
    assert (cluster["spark.jars"], "spark.driver.memory" in cluster) == ("/a.jar", False)


def test_suspended_local_driver_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    timeout = "spark.storage.blockManagerHeartbeatTimeoutMs"
    monkeypatch.delenv("MASTER", raising=False)
    assert complete_session_conf([], {}, [])[timeout] == "3650d"
    assert complete_session_conf([], {"spark.master": "local", timeout: "1h"}, [])[timeout] == "1h"
    for master in ("local-cluster[2,1,1024]", "yarn"):
        assert timeout not in complete_session_conf([], {"spark.master": master}, [])


def test_history_of_jobs_is_limited_unless_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = complete_session_conf([], {"spark.ui.retainedJobs": "500"}, [])
    assert (conf["spark.ui.retainedJobs"], conf["spark.ui.retainedStages"]) == ("500", "20")
    assert conf["spark.scheduler.mode"] == "FAIR"
    (tmp_path / "spark-defaults.conf").write_text("spark.ui.retainedStages 300\nspark.scheduler.mode FIFO\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert not {"spark.ui.retainedStages", "spark.scheduler.mode"} & complete_session_conf([], {}, []).keys()


def test_session_has_no_repositories_unless_spark_resolves_packages() -> None:
    conf = {"spark.jars.repositories": "https://me:pass@registry.example/", "spark.jars.excludes": "a:b"}
    assert not conf.keys() & complete_session_conf([], conf, []).keys()
    assert conf.items() <= complete_session_conf([], {**conf, "spark.jars.packages": "a:c:1"}, []).items()


def test_spark_redacts_settings_and_options_with_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Store(Plugin):
        """Plugin with an option that is passed to Spark."""

        name = "away"

        class Config(BaseConfig):
            passthrough = ("acme.*",)

    secret = Secret("s3cr3t", "${env:PW}")
    conf = {"spark.hadoop.fs.acme.id": secret, JAVA_OPTIONS: Secret("-Dacme.store=s3cr3t"), "spark.app.name": "acme"}
    settings = complete_session_conf([Store({"acme.signer": secret, "acme.path": "x"})], conf, [])
    redacts = re.compile(settings["spark.redaction.regex"]).search
    assert all(map(redacts, ["spark.hadoop.fs.acme.id", "fs.acme.id", JAVA_OPTIONS, "acme.store", "ACME.signer"]))
    assert all(map(redacts, ["a.Password", "a.secret.key", "fs.azure.account.key.lake", "sasl.jaas.config"]))
    assert not any(map(redacts, ["acme.path", "spark.app.name", "x.fs.acme.id", "acme.signer.x"]))
    assert "s3cr3t" not in repr(settings)
    own = complete_session_conf([Store({"acme.signer": secret})], {"spark.redaction.regex": "mine"}, [])
    assert own["spark.redaction.regex"].startswith("mine|")
    (tmp_path / "spark-defaults.conf").write_text("# theirs\nspark.redaction.regex   the\\\\.machines \n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert complete_session_conf([], {}, [])["spark.redaction.regex"] == r"the\.machines"


def test_complete_session_passes_the_check() -> None:
    needed = merge_session_conf([Lake(), Pond()])
    assert list_missing_conf([Lake(), Pond()], needed.get) == []
    assert list_missing_jars([Lake(), Pond()], "3.5", lambda _: True) == []


def test_missing_lines_keep_the_values_of_the_session() -> None:
    session = {EXTENSIONS: "Other,LakeExtension", "spark.sql.catalog.lake": "somebody else's"}
    assert list_missing_conf([Lake(), Pond()], session.get) == [
        f'.config("{EXTENSIONS}", "Other,LakeExtension,PondExtension")',
        '.config("spark.serializer", "kryo")',
    ]
    assert list_missing_jars([Lake(), Pond()], "3.5", lambda _: False) == [
        '.config("spark.jars.packages", "org.lake:lake:1")'
    ]
