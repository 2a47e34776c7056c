"""The brokers of a cluster, which AWS knows by its ARN."""

from __future__ import annotations

from headrace.sdk import ConfigError
from headrace_aws.clients import explain_error, make_client
from headrace_aws.identity import Identity

_PREFIX = "BootstrapBrokerString"
#: Network → which of the answer's lists.
_IAM_LISTS = {
    "private": f"{_PREFIX}SaslIam",
    "public": f"{_PREFIX}PublicSaslIam",
    "vpc": f"{_PREFIX}VpcConnectivitySaslIam",
}


def ask_brokers(identity: Identity, arn: str, network: str) -> str:
    """The brokers of a cluster that take IAM, ``host:port`` with commas. ConfigError when it has none for this network."""
    client = make_client("kafka", identity.region, identity.open_session("kafka"))
    where = f"cluster {arn}"
    try:
        answer = client.get_bootstrap_brokers(ClusterArn=arn)
    except Exception as error:
        raise explain_error(error, "kafka:GetBootstrapBrokers", where=where) from error
    if brokers := answer.get(_IAM_LISTS[network]):
        return str(brokers)
    others = [name for name, key in _IAM_LISTS.items() if answer.get(key)]
    if others:
        fix = f"set `network: {others[0]}`" if len(others) == 1 else f"set `network` to {' or '.join(others)}"
        raise ConfigError(f"it has no brokers for IAM in the network {network!r}", where=where, fix=fix)
    logins = [key.removeprefix(_PREFIX) or "Plaintext" for key in sorted(answer) if key.startswith(_PREFIX)]
    raise ConfigError(
        f"it has no brokers for IAM; it has {', '.join(logins) or 'none at all'}",
        where=where,
        fix="switch on IAM access control for the cluster, and wait until it is active",
    )
