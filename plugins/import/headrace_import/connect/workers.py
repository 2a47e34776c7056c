"""Properties of Kafka Connect's workers and of Kafka's clients: brokers, login and default converters."""

from __future__ import annotations

from headrace.sdk import ConfigError
from headrace_import.settings import Settings

_FIX = "name the JSON file of a connector, the properties of a worker, or those of a Kafka client"


def check_worker(settings: Settings) -> None:
    """Raise ConfigError for a properties file that is neither of a worker nor of a client."""
    is_worker = settings.has("bootstrap.servers") or settings.has("plugin.path") or settings.has("offset.storage.topic")
    is_client = any(key.startswith(("security.", "sasl.", "ssl.")) for key in settings.list_keys())
    if not is_worker and not is_client:
        raise ConfigError("the file has no option of a worker or a client", where=settings.place, fix=_FIX)
