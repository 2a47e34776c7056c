"""As whom AWS is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace_aws.clients import explain_error, make_client, open_session


@dataclass(frozen=True)
class Identity:
    """The process's own identity, or a profile's, or a role that the process assumes."""

    region: str
    profile: str | None = None
    role_arn: str | None = None
    external_id: str | None = field(default=None, repr=False)
    session_name: str = "headrace"
    #: Asked for the role; None: ``region``.
    sts_region: str | None = None

    def open_session(self, service: str) -> Any:
        """A session of boto3. ``service``: what for, as errors say it."""
        if self.role_arn is None:
            return open_session(service, profile=self.profile)
        sts = make_client("sts", self.sts_region or self.region)
        trust = {"ExternalId": self.external_id} if self.external_id else {}
        try:
            answer = sts.assume_role(RoleArn=self.role_arn, RoleSessionName=self.session_name, **trust)["Credentials"]
            keys = {
                "aws_access_key_id": answer["AccessKeyId"],
                "aws_secret_access_key": answer["SecretAccessKey"],
                "aws_session_token": answer["SessionToken"],
            }
        except Exception as error:
            raise explain_error(error, "sts:AssumeRole", where=f"role {self.role_arn}") from error
        return open_session(service, keys=keys)
