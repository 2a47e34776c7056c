"""Stand-in for sources of role credentials: the container agent of ECS or EKS, and STS.

It returns the keys of a local S3 server to every client and checks no signature. The S3 server checks signatures with these keys.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from tests.support.local_server import LocalServer

from headrace_stack import S3

TOKEN, _END = "token", "2099-12-31T23:59:59Z"
_STS_ANSWER = f"""<{{0}}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{{0}}Result><Credentials>
<AccessKeyId>{{1}}</AccessKeyId><SecretAccessKey>{{2}}</SecretAccessKey><SessionToken>{TOKEN}</SessionToken><Expiration>{_END}</Expiration>
</Credentials></{{0}}Result><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></{{0}}Response>"""


class RoleServer(LocalServer):
    """Server that returns the keys of ``s3``."""

    def __init__(self, s3: S3) -> None:
        super().__init__(_Handler)
        self.s3 = s3
        #: Parameters of the STS requests, and number of requests to the container agent.
        self.asked: list[dict[str, str]] = []
        self.containers = 0

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of a container whose task or pod has a role."""
        return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.endpoint_url}/role", "AWS_REGION": self.s3.region}


class _Handler(BaseHTTPRequestHandler):
    server: RoleServer

    def do_GET(self) -> None:
        self.server.containers += 1
        s3 = self.server.s3
        # No session token, because the S3 server does not support them.
        keys = {"AccessKeyId": s3.access_key, "SecretAccessKey": s3.secret_key, "Expiration": _END}
        self._answer("application/json", json.dumps(keys))

    def do_POST(self) -> None:
        parameters = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self.server.asked.append(parameters)
        s3 = self.server.s3
        self._answer("text/xml", _STS_ANSWER.format(parameters["Action"], s3.access_key, escape(s3.secret_key)))

    def _answer(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""
