"""Options of the AWS identity, shared by all blocks that call AWS."""

from __future__ import annotations

from pydantic import Field, SecretStr, model_validator

from headrace.sdk import Config
from headrace_aws.identity import Identity

#: Beginning of an ARN, in all AWS partitions.
ARN = r"arn:aws[\w-]*"


class IdentityConfig(Config):
    """Options of the AWS identity. Default: the credentials of the process, on the driver and on executors."""

    profile: str | None = Field(None, min_length=1)
    """Profile in `~/.aws` of every machine."""

    role_arn: str | None = Field(None, alias="role.arn", pattern=rf"^{ARN}:iam::\d{{12}}:role/.+$")
    """IAM role to assume."""

    external_id: SecretStr | None = Field(None, alias="external.id")
    """External ID that the role's trust policy requires."""

    session_name: str = Field("headrace", alias="session.name", pattern=r"^[\w+=,.@-]{2,64}$")
    """Session name in CloudTrail."""

    sts_region: str | None = Field(None, alias="sts.region")
    """Region of the STS endpoint. Default: the region of the block."""

    @model_validator(mode="after")
    def _one_identity(self) -> IdentityConfig:
        if self.profile and self.role_arn:
            raise ValueError(
                "`profile` and `role.arn` are both set: remove one; a profile can have a `role_arn` of its own"
            )
        if self.external_id and not self.role_arn:
            raise ValueError("`external.id` requires `role.arn`")
        return self

    def identity(self, region: str | None) -> Identity:
        """Return the identity. ``region`` is the region of the block."""
        return Identity(
            region,
            profile=self.profile,
            role_arn=self.role_arn,
            external_id=self.external_id.get_secret_value() if self.external_id else None,
            session_name=self.session_name,
            sts_region=self.sts_region,
        )
