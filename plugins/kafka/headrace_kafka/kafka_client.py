"""Options of Kafka's clients, and the plugin that the source and the sink ``kafka`` extend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from headrace.sdk import Auth, Config, Dataset, Plugin
from headrace.sdk.findings import Checkup, Finding
from headrace.sdk.options import option_text
from headrace_kafka.broker_probe import find_unreachable
from headrace_kafka.kafka_admin import KafkaAdmin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Options that ``auth`` sets.
_LOGIN_OPTIONS = (
    "kafka.security.protocol",
    "kafka.sasl.mechanism",
    "kafka.sasl.jaas.config",
    "kafka.sasl.client.callback.handler.class",
    "kafka.sasl.login.callback.handler.class",
)
#: Options of all clients that users write without Spark's prefix.
CLIENT_OPTIONS = (
    "client.id",
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    *(f"ssl.{store}.{part}" for store in ("truststore", "keystore") for part in ("location", "password", "type")),
    "ssl.key.password",
    "request.timeout.ms",
)
EXPLAINED_BROKERS = {
    "kafka.bootstrap.servers": ("the brokers have an option without a prefix", "write `bootstrap.servers:`")
}
#: Similarity from which an unknown option is a misspelled one. Different options are less similar.
_MISSPELLED = 0.9
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")


def explain_prefix(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the explanations of options that are written without Spark's prefix."""
    return {
        name: (f"Spark's name of Kafka's option `{name}` is `kafka.{name}`", f"write `kafka.{name}:`") for name in names
    }


class KafkaClientConfig(Config):
    """Brokers and authentication."""

    #: Options of the client that users write without Spark's prefix, or misspell.
    known_options: ClassVar[tuple[str, ...]] = CLIENT_OPTIONS

    bootstrap_servers: str | list[str] | None = Field(None, alias="bootstrap.servers", min_length=1)
    """Bootstrap brokers: ``host:port``, comma separated or as a list. Required, unless ``auth`` finds them."""

    auth: Auth = None
    """Authentication by a plugin: ``{msk-iam: {…}}``. Without it, the options of Kafka's client apply."""

    @classmethod
    def explain_key(cls, key: str, value: Any) -> tuple[str, str] | None:
        known = [f"kafka.{name}" for name in ("bootstrap.servers", *cls.known_options)]
        is_known = not str(key).startswith("kafka.") or key in known or key in cls.explained
        # Kafka's client ignores unknown options.
        close = [] if is_known else get_close_matches(key, known, n=1, cutoff=_MISSPELLED)
        if close:
            written = close[0].removeprefix("kafka.") if close[0] in cls.explained else close[0]
            return f"Kafka has no option `{key}`", f"did you mean `{written}`?"
        return super().explain_key(key, value)

    @model_validator(mode="after")
    def _one_login(self) -> KafkaClientConfig:
        if not self.bootstrap_servers and not (self.auth and self.auth.finds_brokers):
            raise ValueError("needs `bootstrap.servers`: host:port of one broker or more")
        if self.auth and (named := [key for key in self.options() if key in _LOGIN_OPTIONS]):
            raise ValueError(f"has `auth` and {', '.join(named)}, which `auth` sets: remove one of them")
        return self


class KafkaClient(Plugin):
    """Base of the source and the sink ``kafka``: the brokers of a cluster, the login, and the jars."""

    config: KafkaClientConfig
    #: Spark releases it with each patch. The patches that are missing here have the jars of the nearest one.
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5.7": ("org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",),
        **{p: (f"org.apache.spark:spark-sql-kafka-0-10_2.13:{p}",) for p in ("4.0.0", "4.1.1", "4.2.0")},
    }
    jvm_class = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
    #: Options that the pipeline file may override.
    client_defaults: ClassVar[Mapping[str, str]] = {}
    _client: KafkaAdmin | None = None
    _cluster: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which opens its own connection."""
        return {name: value for name, value in self.__dict__.items() if name != "_client"}

    def parts(self) -> Sequence[Plugin]:
        return [self.config.auth] if self.config.auth else []

    def session_conf(self) -> dict[str, str]:
        servers, auth = self.config.bootstrap_servers, self.config.auth
        properties = auth.java_properties(option_text(servers or "")) if auth else {}
        options = " ".join(f"-D{name}={value}" for name, value in properties.items())
        return dict.fromkeys(_JAVA_OPTIONS, options) if options else {}

    def check(self, spark: SparkSession | None = None) -> None:
        if self.config.auth and self.config.bootstrap_servers:  # without servers, the plugin queries a service
            self.client_options()

    def diagnose(self, checkup: Checkup) -> Iterator[Finding]:
        if checkup.spark is None and self.config.bootstrap_servers:  # otherwise Kafka's client connects
            yield from find_unreachable(self.servers)

    def reads_topic(self, topic: str, spark: SparkSession | None = None) -> bool:
        """Return whether it reads the records of a topic. Without a session, a pattern of names matches no topic."""
        return False

    @cached_property
    def servers(self) -> str:
        """The brokers as ``host:port``, with commas. ``auth`` may send a request to find them."""
        named, auth = self.config.bootstrap_servers, self.config.auth
        return auth.brokers() if auth and not named else option_text(named)

    def locate_topic(self, topic: str) -> Dataset | None:
        """Return the place of a topic. Its namespace is the first broker; None if ``auth`` finds the brokers."""
        broker = option_text(self.config.bootstrap_servers or "").partition(",")[0].strip()
        return Dataset(f"kafka://{broker}", topic) if broker else None

    def client_options(self) -> dict[str, str]:
        """Return the options of Kafka's clients, by Kafka's names: the options of ``auth``, overridden by the options in the pipeline file."""
        own = {k.removeprefix("kafka."): v for k, v in self.config.options().items() if k.startswith("kafka.")}
        auth = self.config.auth.client_options(self.servers) if self.config.auth else {}
        return {**self.client_defaults, **auth, **own, "bootstrap.servers": self.servers}

    def admin(self, spark: SparkSession) -> KafkaAdmin:
        """Return the client of the cluster, which is created once."""
        if self._client is None:
            self._client = KafkaAdmin(spark, self.client_options())
        return self._client

    def is_on_cluster_of(self, other: KafkaClient, spark: SparkSession | None) -> bool:
        """Return whether both have one cluster. Without a session, it compares the names of the brokers and sends no request."""
        if spark is not None:
            return self.cluster_id(spark) == other.cluster_id(spark)
        own, others = (option_text(client.config.bootstrap_servers or "") for client in (self, other))
        return not _split(own).isdisjoint(_split(others))

    def cluster_id(self, spark: SparkSession) -> str:
        """Return the id of the cluster, which is requested once."""
        if self._cluster is None:
            self._cluster, _ = self.admin(spark).cluster()
        return self._cluster

    def describe_cluster(self, spark: SparkSession) -> str:
        """Return the cluster and the login as text. Raises if no broker responds, or if one rejects the login."""
        cluster, brokers = self.admin(spark).cluster()
        options = self.client_options()
        protocol, mechanism = options.get("security.protocol", "PLAINTEXT"), options.get("sasl.mechanism")
        how = f"{protocol}, {mechanism}: authentication succeeded" if mechanism and "SASL" in protocol else protocol
        return f"{self.servers}: cluster {cluster}, {brokers} broker{'s' * (brokers != 1)}, {how}"


def _split(servers: str) -> set[str]:
    """Return the brokers of an option."""
    return {name.strip().lower() for name in servers.split(",") if name.strip()}
