"""Options that say as whom AWS is asked, of every block that does."""

from __future__ import annotations

from pydantic import Field, SecretStr, model_validator

from headrace.sdk import Config
from headrace_aws.identity import Identity

#: How an ARN begins, in all of AWS's partitions.
ARN = r"arn:aws[\w-]*"


class IdentityConfig(Config):
    """Options of a block. Without `profile` and `role.arn`: as whom AWS knows the process, on the driver and on executors."""

    profile: str | None = Field(None, min_length=1)
    """A profile of `~/.aws`, on every machine."""

    role_arn: str | None = Field(None, alias="role.arn", pattern=rf"^{ARN}:iam::\d{{12}}:role/.+$")
    """A role to assume."""

    external_id: SecretStr | None = Field(None, alias="external.id")
    """What the role's trust asks for."""

    session_name: str = Field("headrace", alias="session.name", pattern=r"^[\w+=,.@-]{2,64}$")
    """The session's name in CloudTrail."""

    sts_region: str | None = Field(None, alias="sts.region")
    """The region that is asked for the role. Default: the block's."""

    @model_validator(mode="after")
    def _one_identity(self) -> IdentityConfig:
        if self.profile and self.role_arn:
            raise ValueError("has `profile` and `role.arn`: write either; a profile may have `role_arn` itself")
        if self.external_id and not self.role_arn:
            raise ValueError("has `external.id` and no `role.arn`")
        return self

    def identity(self, region: str | None) -> Identity:
        """Who that is. ``region``: the block's."""
        return Identity(
            region,
            profile=self.profile,
            role_arn=self.role_arn,
            external_id=self.external_id.get_secret_value() if self.external_id else None,
            session_name=self.session_name,
            sts_region=self.sts_region,
        )
