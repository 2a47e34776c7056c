"""A connector in Amazon MSK Connect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headrace.sdk import ConfigError, FatalError
from headrace_aws.clients import explain_error, make_client
from headrace_connect.connector_diff import describe_differences
from headrace_connect.connector_secrets import ConnectorSecrets

_SERVICE = "kafkaconnect"
#: Parameter of the block that is not one of the request.
_REGION = "region"
#: Parameters of the request with their options of the block.
_OF_BLOCK = {"connectorName": "name", "connectorConfiguration": "config"}
#: Fields of a connector's description that are read.
_DESCRIBED = ("connectorArn", "connectorState", "connectorConfiguration", "currentVersion")


class MskConnector:
    """Connector of MSK Connect. ``parameters``: those of ``CreateConnector`` under their own names, and ``region``."""

    def __init__(
        self, name: str, options: Mapping[str, str], parameters: Mapping[str, Any], secrets: ConnectorSecrets
    ) -> None:
        if not parameters:
            fix = "add `msk:` to `connect:` with the parameters of CreateConnector: capacity, kafkaCluster, plugins …"
            raise ConfigError("MSK Connect needs more parameters", where=f"connector {name}", fix=fix)
        if own := [key for key in _OF_BLOCK if key in parameters]:
            what = f"`{own[0]}` is not a parameter of `msk:`"
            fix = f"remove it: `{_OF_BLOCK[own[0]]}:` in `connect:` has its value"
            raise ConfigError(what, where=f"connector {name}", fix=fix)
        self.name, self.options, self.secrets = name, options, secrets
        self.request = {
            **{key: value for key, value in parameters.items() if key != _REGION},
            "connectorName": name,
            "connectorConfiguration": dict(options),
        }
        self.place = f"connector {name} in MSK Connect"
        self._client = make_client(_SERVICE, parameters.get(_REGION), where=self.place)
        self._validate()

    def find(self) -> dict[str, Any] | None:
        """Return the description of the deployed connector; None if there is none."""
        with self._explain_errors("list_connectors"):
            found = next((item["connectorArn"] for item in self._list() if item["connectorName"] == self.name), None)
        if found is None:
            return None
        described = self._call("describe_connector", *_DESCRIBED, connectorArn=found)
        if described["connectorState"] == "FAILED":
            reason = described.get("stateDescription", {}).get("message", "see its log")
            fix = "delete the connector in MSK Connect, and deploy it again: a failed one cannot be changed"
            raise FatalError(f"the connector failed: {reason}", where=self.place, fix=fix)
        return described

    def describe_differences(self, deployed: Mapping[str, Any] | None) -> list[str]:
        """Return one line per option of the connector that differs."""
        return describe_differences(deployed["connectorConfiguration"] if deployed else {}, self.options, self.secrets)

    def describe_request(self) -> str:
        """Return the request that creates the connector as JSON, without secrets."""
        shown = {self.secrets.show_key(key): self.secrets.show_value(key, value) for key, value in self.options.items()}
        return json.dumps({**self.secrets.hide_all(self.request), "connectorConfiguration": shown}, indent=2)

    def create(self) -> str:
        """Create the connector, and return its state."""
        return str(self._call("create_connector", "connectorState", **self.request)["connectorState"])

    def update(self, deployed: Mapping[str, Any]) -> str:
        """Change the configuration of the deployed connector, and return its state."""
        identity = {"connectorArn": deployed["connectorArn"], "currentVersion": deployed["currentVersion"]}
        answer = self._call("update_connector", "connectorState", **identity, connectorConfiguration=dict(self.options))
        return str(answer["connectorState"])

    def _validate(self) -> None:
        from botocore.validate import ParamValidator

        shape = self._client.meta.service_model.operation_model("CreateConnector").input_shape
        report = ParamValidator().validate(self.request, shape)
        if report.has_errors():
            what = f"the parameters are not valid: {report.generate_report()}"
            raise ConfigError(what, where=self.place, fix="correct `msk:` in `connect:`")

    def _list(self) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        while True:
            page = self._call("list_connectors", "connectors", connectorNamePrefix=self.name, **token)
            yield from page["connectors"]
            if not page.get("nextToken"):
                return
            token = {"nextToken": page["nextToken"]}

    def _call(self, operation: str, *fields: str, **parameters: Any) -> dict[str, Any]:
        """Return the response of a request, which has these fields."""
        with self._explain_errors(operation):
            answer: dict[str, Any] = getattr(self._client, operation)(**parameters)
            for field in fields:
                answer[field]  # KeyError: the response is not from AWS
            return answer

    @contextmanager
    def _explain_errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            action = "kafkaconnect:" + "".join(word.title() for word in operation.split("_"))
            raise explain_error(error, action, where=self.place) from error
