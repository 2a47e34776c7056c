"""Authentication plugin ``msk-iam``: Amazon MSK with the IAM identity of the process, a profile or a role."""

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
from headrace_aws.msk.brokers import find_brokers
from headrace_aws.msk.msk_errors import explain_login
from headrace_aws.msk.token import sign_token

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = "software.amazon.msk.auth.iam"
#: Mechanism → login module and callback handlers.
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
    """Authentication at MSK with IAM. Default: the credentials of the process, on the driver and on executors."""

    region: str | None = Field(None, pattern=r"^[a-z]{2,4}(-[a-z]+)+-\d$")
    """Region of the cluster. Default: the region in `cluster.arn`, in the brokers' host names, or in the environment.
    """

    cluster_arn: str | None = Field(None, alias="cluster.arn", pattern=rf"^{ARN}:kafka:[\w-]+:\d{{12}}:cluster/.+$")
    """Cluster, provisioned or serverless. AWS returns its brokers, so `bootstrap.servers` can be omitted."""

    network: Literal["private", "public", "vpc"] = "private"
    """Brokers of the cluster to use: of its own network, public, or of multi-VPC connections."""

    mechanism: Literal["AWS_MSK_IAM", "OAUTHBEARER"] = "AWS_MSK_IAM"
    """SASL mechanism. MSK supports both; clients in other languages use the second."""


class MskIam(AuthProvider):
    """Plugin of ``auth: {msk-iam: {region: eu-west-1}}``."""

    name = "msk-iam"
    api_version = 1
    connect_needs_spark = False
    Config = MskIamConfig
    config: MskIamConfig
    # The shaded jar: the plain jar requires a newer Jackson than Spark supports.
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
        ("3.5", "4.0", "4.1", "4.2", "4.3"), ("software.amazon.msk:aws-msk-iam-auth:2.3.9:jar:all",)
    )
    jvm_class = f"{_PACKAGE}.IAMLoginModule"

    @property
    def finds_brokers(self) -> bool:  # type: ignore[override]
        return self.config.cluster_arn is not None

    def brokers(self) -> str:
        assert self.config.cluster_arn, "finds_brokers"
        return find_brokers(self._identity(""), self.config.cluster_arn, self.config.network)

    def java_properties(self, servers: str) -> Mapping[str, str]:
        return {"aws.region": self._region(servers)}  # the MSK client has no option for it

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
        if login:  # otherwise the MSK client falls back to another identity
            login["awsAddDefaultProviders"] = "false"
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": config.mechanism,
            "sasl.jaas.config": jaas_config(module, **login),
            **handlers,
            # A broker accepts twenty new connections per second from all clients.
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
        """Return the region of the block, the cluster, the brokers' host names or the environment."""
        config = self.config
        of_cluster = config.cluster_arn and config.cluster_arn.split(":")[3]
        of_brokers = match[1] if (match := _BROKER_REGION.search(servers)) else None
        region = config.region or of_cluster or of_brokers or find_region(config.profile)
        if region is None:
            fix = "add `region: eu-west-1`, or set AWS_REGION"
            raise ConfigError(f"no region is set, and {servers} contains none", where=f"auth {self.name}", fix=fix)
        return region
