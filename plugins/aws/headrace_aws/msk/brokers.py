"""Lookup of the brokers of an MSK cluster by its ARN."""

from __future__ import annotations

from headrace.sdk import ConfigError
from headrace_aws.clients import explain_error, make_client
from headrace_aws.identity import Identity

_PREFIX = "BootstrapBrokerString"
#: Network → field of the response.
_IAM_LISTS = {
    "private": f"{_PREFIX}SaslIam",
    "public": f"{_PREFIX}PublicSaslIam",
    "vpc": f"{_PREFIX}VpcConnectivitySaslIam",
}


def find_brokers(identity: Identity, arn: str, network: str) -> str:
    """Return the brokers with IAM as comma-separated ``host:port``. ConfigError if the network has none."""
    client = make_client("kafka", identity.region, identity.open_session("kafka"))
    where = f"cluster {arn}"
    try:
        response = client.get_bootstrap_brokers(ClusterArn=arn)
    except Exception as error:
        raise explain_error(error, "kafka:GetBootstrapBrokers", where=where) from error
    if brokers := response.get(_IAM_LISTS[network]):
        return str(brokers)
    others = [name for name, key in _IAM_LISTS.items() if response.get(key)]
    if others:
        fix = f"set `network: {others[0]}`" if len(others) == 1 else f"set `network` to {' or '.join(others)}"
        raise ConfigError(f"the cluster has no brokers with IAM in the network {network!r}", where=where, fix=fix)
    logins = [key.removeprefix(_PREFIX) or "Plaintext" for key in sorted(response) if key.startswith(_PREFIX)]
    raise ConfigError(
        f"the cluster has no brokers with IAM; it has {', '.join(logins) or 'none'}",
        where=where,
        fix="enable IAM access control for the cluster, and wait until it is active",
    )
