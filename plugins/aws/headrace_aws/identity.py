"""As whom AWS is asked: sessions of boto3 that stay logged in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.sdk import HeadraceError, LoginError
from headrace_aws.clients import explain_error, is_denied, make_client, open_session

#: What is to be done where a role cannot be assumed.
FIX_TRUST = (
    "let the role's trust policy name who runs this, with `external.id` where it asks for one, and allow sts:AssumeRole"
)


@dataclass(frozen=True)
class Identity:
    """The process's own identity, or a profile's, or a role that the process assumes. Goes to executors, which assume it themselves."""

    #: None: the environment's, or the profile's.
    region: str | None = None
    profile: str | None = None
    role_arn: str | None = None
    external_id: str | None = field(default=None, repr=False)
    session_name: str = "headrace"
    #: Asked for the role; None: ``region``.
    sts_region: str | None = None

    def open_session(self, service: str) -> Any:
        """A session of boto3. ``service``: what for, as errors say it. A role is assumed when it is needed, and again before it ends."""
        if self.role_arn is None:
            return open_session(service, profile=self.profile)
        session = open_session(service)
        from botocore.credentials import CredentialProvider, CredentialResolver, DeferredRefreshableCredentials

        credentials = DeferredRefreshableCredentials(self._assume, "headrace-role")

        class Role(CredentialProvider):  # type: ignore[misc]
            """The role and nobody else."""

            METHOD = "headrace-role"

            def load(self) -> Any:
                return credentials

        session._session.register_component("credential_provider", CredentialResolver([Role()]))  # noqa: SLF001 - boto3 has no other door to it
        return session

    def _assume(self) -> dict[str, str]:
        """Keys of the role for an hour, as botocore takes them."""
        sts = make_client("sts", self.sts_region or self.region)
        trust = {"ExternalId": self.external_id} if self.external_id else {}
        try:
            answer = sts.assume_role(RoleArn=self.role_arn, RoleSessionName=self.session_name, **trust)["Credentials"]
            return {
                "access_key": answer["AccessKeyId"],
                "secret_key": answer["SecretAccessKey"],
                "token": answer["SessionToken"],
                "expiry_time": answer["Expiration"].isoformat(),
            }
        except Exception as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> HeadraceError:
        where = f"role {self.role_arn}"
        if is_denied(error):
            return LoginError(f"it cannot be assumed: {error}", where=where, fix=FIX_TRUST)
        return explain_error(error, "sts:AssumeRole", where=where)
