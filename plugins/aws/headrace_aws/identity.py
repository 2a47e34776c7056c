"""AWS identities: boto3 sessions with renewed credentials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.sdk import ConfigError, HeadraceError
from headrace_aws.clients import explain_error, is_denied, make_client, open_session

#: Fix for a role that cannot be assumed.
FIX_TRUST = (
    "allow the caller in the role's trust policy, set `external.id` if the policy requires it, and allow sts:AssumeRole"
)


@dataclass(frozen=True)
class Identity:
    """Identity of the process, of a profile or of a role. Executors receive it and assume the role themselves."""

    #: None: the region of the environment or of the profile.
    region: str | None = None
    profile: str | None = None
    role_arn: str | None = None
    external_id: str | None = field(default=None, repr=False)
    session_name: str = "headrace"
    #: Region of STS; None: ``region``.
    sts_region: str | None = None

    def open_session(self, service: str) -> Any:
        """Return a boto3 session. ``service`` appears in errors. A role is assumed on first use and before it expires."""
        if self.role_arn is None:
            return open_session(service, profile=self.profile)
        session = open_session(service)
        from botocore.credentials import CredentialProvider, CredentialResolver, DeferredRefreshableCredentials

        credentials = DeferredRefreshableCredentials(self._assume, "headrace-role")

        class Role(CredentialProvider):  # type: ignore[misc]
            """Credential provider of the role, without a fallback."""

            METHOD = "headrace-role"

            def load(self) -> Any:
                return credentials

        session._session.register_component("credential_provider", CredentialResolver([Role()]))  # noqa: SLF001 - boto3 has no public interface for it
        return session

    def _assume(self) -> dict[str, str]:
        """Return credentials of the role for one hour, in the format of botocore."""
        sts = make_client("sts", self.sts_region or self.region)
        trust = {"ExternalId": self.external_id} if self.external_id else {}
        try:
            response = sts.assume_role(RoleArn=self.role_arn, RoleSessionName=self.session_name, **trust)["Credentials"]
            return {
                "access_key": response["AccessKeyId"],
                "secret_key": response["SecretAccessKey"],
                "token": response["SessionToken"],
                "expiry_time": response["Expiration"].isoformat(),
            }
        except Exception as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> HeadraceError:
        where = f"role {self.role_arn}"
        if is_denied(error):
            return ConfigError(f"the role cannot be assumed: {error}", where=where, fix=FIX_TRUST)
        return explain_error(error, "sts:AssumeRole", where=where)
