"""Amazon MSK with IAM: Kafka's client in the JVM signs in with what AWS knows this process, a profile or a role as."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from headrace.sdk import AuthProvider, ConfigError, HeadraceError
from headrace.sdk.options import jaas_config
from headrace_aws.clients import find_region
from headrace_aws.identity import Identity
from headrace_aws.identity_config import ARN, IdentityConfig
from headrace_aws.msk.brokers import ask_brokers
from headrace_aws.msk.msk_errors import explain_login
from headrace_aws.msk.token import sign_token

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = "software.amazon.msk.auth.iam"
#: By mechanism: the login module, and which of the client's callback handlers are AWS's.
_LOGINS = {
    "AWS_MSK_IAM": (
        f"{_PACKAGE}.IAMLoginModule",
        {"sasl.client.callback.handler.class": f"{_PACKAGE}.IAMClientCallbackHandler"},
    ),
    "OAUTHBEARER": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
        {
            "sasl.login.callback.handler.class": f"{_PACKAGE}.IAMOAuthBearerLoginCallbackHandler",
            "sasl.client.callback.handler.class": f"{_PACKAGE}.IAMOAuthBearerLoginCallbackHandler",
        },
    ),
}
_BROKER_REGION = re.compile(r"\.([a-z]{2,4}(?:-[a-z]+)+-\d)\.(?:vpce\.)?amazonaws\.com")


class MskIamConfig(IdentityConfig):
    """Login at MSK with IAM. Without `profile` and `role.arn`: as whom AWS knows the process, on the driver and on executors."""

    region: str | None = Field(None, pattern=r"^[a-z]{2,4}(-[a-z]+)+-\d$")
    """The cluster's region. Default: that of `cluster.arn`, of the brokers' names, of the environment."""

    cluster_arn: str | None = Field(None, alias="cluster.arn", pattern=rf"^{ARN}:kafka:[\w-]+:\d{{12}}:cluster/.+$")
    """The cluster, provisioned or serverless: AWS is asked for its brokers, and `bootstrap.servers` may be left out."""

    network: Literal["private", "public", "vpc"] = "private"
    """Which of the cluster's brokers: those of its own network, the public ones, those of multi-VPC connections."""

    mechanism: Literal["AWS_MSK_IAM", "OAUTHBEARER"] = "AWS_MSK_IAM"
    """Of SASL. Both are MSK's; the second is what clients in other languages use."""


class MskIam(AuthProvider):
    """``auth: {msk-iam: {region: eu-west-1}}``."""

    name = "msk-iam"
    api_version = 1
    Config = MskIamConfig
    config: MskIamConfig
    # The one with all it needs inside: what the plain jar wants of Jackson is newer than what Spark works with.
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
        ("3.5", "4.0"), ("software.amazon.msk:aws-msk-iam-auth:2.3.9:jar:all",)
    )
    jvm_class = f"{_PACKAGE}.IAMLoginModule"

    @property
    def finds_brokers(self) -> bool:  # type: ignore[override]
        return self.config.cluster_arn is not None

    def brokers(self) -> str:
        assert self.config.cluster_arn, "finds_brokers"
        return ask_brokers(self._identity(""), self.config.cluster_arn, self.config.network)

    def java_properties(self, servers: str) -> Mapping[str, str]:
        return {"aws.region": self._region(servers)}  # AWS's client has no option for it

    def client_options(self, servers: str) -> Mapping[str, str]:
        config, region = self.config, self._region(servers)
        module, handlers = _LOGINS[config.mechanism]
        login: dict[str, str | None] = {}
        if config.profile:
            login = {"awsProfileName": config.profile}
        elif config.role_arn:
            login = {
                "awsRoleArn": config.role_arn,
                "awsRoleSessionName": config.session_name,
                "awsRoleExternalId": self._identity(servers).external_id,
                "awsStsRegion": config.sts_region or region,
            }
        if login:  # else AWS's client goes on as somebody else when this one fails
            login["awsAddDefaultProviders"] = "false"
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": config.mechanism,
            "sasl.jaas.config": jaas_config(module, **login),
            **handlers,
            # A broker takes twenty new connections a second, of all clients together.
            "reconnect.backoff.ms": "1000",
            "reconnect.backoff.max.ms": "10000",
        }

    def token(self, servers: str) -> tuple[str, float]:
        return sign_token(self._identity(servers))

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        if self.config.cluster_arn:
            yield f"auth {self.name}", f"cluster {self.config.cluster_arn}, {self.config.network}: {self.brokers()}"

    def explain(self, error: BaseException) -> HeadraceError | None:
        who = f"profile {self.config.profile}" if self.config.profile else self.config.role_arn
        return explain_login(error, who, f"auth {self.name}")

    def _identity(self, servers: str) -> Identity:
        identity: Identity = self.config.identity(self._region(servers))
        return identity

    def _region(self, servers: str) -> str:
        """The block's, the cluster's, that in the brokers' names, the environment's."""
        config = self.config
        of_cluster = config.cluster_arn and config.cluster_arn.split(":")[3]
        of_brokers = match[1] if (match := _BROKER_REGION.search(servers)) else None
        region = config.region or of_cluster or of_brokers or find_region(config.profile)
        if region is None:
            fix = "add `region: eu-west-1`, or set AWS_REGION"
            raise ConfigError(f"no region is named, and {servers} carries none", where=f"auth {self.name}", fix=fix)
        return region
