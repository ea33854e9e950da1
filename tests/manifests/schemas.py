"""What the custom kinds accept, strict, and only what this project uses; `crds.py` holds it to the published CRDs.

Istio 1.27 (networking and security API v1, EnvoyFilter v1alpha3), kagent v1alpha2, Prometheus operator v1, External
Secrets v1, cert-manager v1. Kinds that are not listed here are refused.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1}
TEXTS: Schema = {"type": "array", "items": TEXT, "minItems": 1}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
DURATION: Schema = {"type": "string", "pattern": r"^([0-9]+(ms|s|m|h))+$"}
LABELS: Schema = {"type": "object", "additionalProperties": TEXT, "minProperties": 1}


def thing(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }


def many(item: Schema) -> Schema:
    return {"type": "array", "items": item, "minItems": 1}


def one_of(*values: str | int) -> Schema:
    return {"enum": list(values)}


SELECTOR = thing({"matchLabels": LABELS})
_SOURCE = thing(
    {},
    {name: TEXTS for name in ("principals", "notPrincipals", "requestPrincipals", "namespaces", "ipBlocks")},
)
_OPERATION = thing({}, {name: TEXTS for name in ("hosts", "ports", "methods", "paths")})
_RULE = thing(
    {},
    {
        "from": many(thing({"source": _SOURCE})),
        "to": many(thing({"operation": _OPERATION})),
        "when": many(thing({"key": TEXT}, {"values": TEXTS, "notValues": TEXTS})),
    },
)
_HTTP_FILTER = {
    "type": "object",
    "required": ["name", "typed_config"],
    "properties": {
        "name": TEXT,
        "typed_config": {
            "type": "object",
            "required": ["@type"],
            "properties": {"@type": {"type": "string", "pattern": r"^type\.googleapis\.com/envoy\."}},
        },
    },
    "additionalProperties": False,
}
_HTTP_FILTER_PATCH = thing(
    {
        "applyTo": one_of("HTTP_FILTER"),
        "match": thing(
            {
                "context": one_of("GATEWAY"),
                "listener": thing(
                    {
                        "filterChain": thing(
                            {"filter": thing({"name": TEXT}, {"subFilter": thing({"name": TEXT})})},
                        )
                    }
                ),
            }
        ),
        "patch": thing({"operation": one_of("INSERT_FIRST", "INSERT_BEFORE"), "value": _HTTP_FILTER}),
    }
)
_VIRTUAL_HOST_PATCH = thing(
    {
        "applyTo": one_of("VIRTUAL_HOST"),
        "match": thing({"context": one_of("GATEWAY")}),
        "patch": thing(
            {
                "operation": one_of("MERGE"),
                "value": thing({"rate_limits": many(thing({"actions": many({"type": "object"})}))}),
            }
        ),
    }
)
_CORS = thing(
    {
        "allowOrigins": many(thing({"exact": TEXT})),
        "allowMethods": TEXTS,
        "allowHeaders": TEXTS,
        "exposeHeaders": TEXTS,
        "allowCredentials": {"type": "boolean"},
        "maxAge": DURATION,
    }
)
_DESTINATION = thing({"host": TEXT, "port": thing({"number": PORT})})
_REMOTE = thing({"key": TEXT})
_URI: Schema = {"oneOf": [thing({"exact": TEXT}), thing({"prefix": TEXT})]}

SPECS: dict[tuple[str, str], Schema] = {
    ("networking.istio.io/v1", "Gateway"): thing(
        {
            "selector": LABELS,
            "servers": many(
                thing(
                    {
                        "port": thing({"number": PORT, "name": TEXT, "protocol": one_of("HTTP", "HTTPS")}),
                        "hosts": TEXTS,
                    },
                    {
                        "tls": thing(
                            {},
                            {
                                "httpsRedirect": {"type": "boolean"},
                                "mode": one_of("SIMPLE", "MUTUAL"),
                                "credentialName": TEXT,
                                "minProtocolVersion": one_of("TLSV1_2", "TLSV1_3"),
                            },
                        ),
                    },
                )
            ),
        }
    ),
    ("networking.istio.io/v1", "VirtualService"): thing(
        {
            "gateways": TEXTS,
            "hosts": TEXTS,
            "http": many(
                thing(
                    {
                        "name": TEXT,
                        "match": many(thing({"uri": _URI}, {"port": PORT})),
                    },
                    {
                        "route": many(thing({"destination": _DESTINATION})),
                        "timeout": DURATION,
                        "redirect": thing({"scheme": one_of("https"), "redirectCode": one_of(301, 308)}),
                        "rewrite": thing({"authority": TEXT}),
                        "retries": thing({"attempts": {"type": "integer", "minimum": 0}}),
                        "headers": thing({"request": thing({"remove": TEXTS})}),
                        "corsPolicy": _CORS,
                    },
                )
            ),
        }
    ),
    ("networking.istio.io/v1alpha3", "EnvoyFilter"): thing(
        {
            "priority": {"type": "integer"},
            "workloadSelector": thing({"labels": LABELS}),
            "configPatches": many({"oneOf": [_HTTP_FILTER_PATCH, _VIRTUAL_HOST_PATCH]}),
        }
    ),
    ("security.istio.io/v1", "RequestAuthentication"): thing(
        {
            "selector": SELECTOR,
            "jwtRules": many(
                thing(
                    {
                        "issuer": TEXT,
                        "audiences": TEXTS,
                        "jwksUri": {"type": "string", "pattern": "^https?://"},
                        "outputClaimToHeaders": many(thing({"header": TEXT, "claim": TEXT})),
                    }
                )
            ),
        }
    ),
    ("security.istio.io/v1", "AuthorizationPolicy"): thing(
        {"selector": SELECTOR, "action": one_of("ALLOW", "DENY"), "rules": many(_RULE)}
    ),
    ("security.istio.io/v1", "PeerAuthentication"): thing(
        {"selector": SELECTOR, "mtls": thing({"mode": one_of("STRICT", "PERMISSIVE")})},
        {
            "portLevelMtls": {
                "type": "object",
                "additionalProperties": thing({"mode": one_of("STRICT", "PERMISSIVE")}),
            }
        },
    ),
    ("kagent.dev/v1alpha2", "RemoteMCPServer"): thing(
        {"description": TEXT, "url": {"type": "string", "pattern": "^https?://"}},
        {"protocol": one_of("SSE", "STREAMABLE_HTTP"), "timeout": DURATION, "sseReadTimeout": DURATION},
    ),
    ("kagent.dev/v1alpha2", "ModelConfig"): thing(
        {"provider": one_of("OpenAI", "AzureOpenAI", "Anthropic", "Ollama", "Gemini"), "model": TEXT},
        {"apiKeySecret": TEXT, "apiKeySecretKey": TEXT, "openAI": thing({}, {"baseUrl": TEXT})},
    ),
    ("kagent.dev/v1alpha2", "Agent"): thing(
        {
            "type": one_of("Declarative"),
            "description": TEXT,
            "declarative": thing(
                {
                    "modelConfig": TEXT,
                    "systemMessage": TEXT,
                    "tools": many(
                        thing(
                            {
                                "type": one_of("McpServer"),
                                "mcpServer": thing(
                                    {
                                        "apiGroup": one_of("kagent.dev"),
                                        "kind": one_of("RemoteMCPServer"),
                                        "name": TEXT,
                                        "toolNames": TEXTS,
                                    }
                                ),
                            }
                        )
                    ),
                }
            ),
        }
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): thing(
        {
            "selector": thing({}, {"matchLabels": LABELS, "matchExpressions": {"type": "array"}}),
            "endpoints": many(thing({"port": TEXT, "path": TEXT, "interval": DURATION})),
        }
    ),
    ("monitoring.coreos.com/v1", "PodMonitor"): thing(
        {
            "selector": thing({"matchLabels": LABELS}),
            "podMetricsEndpoints": many(
                thing({"path": TEXT, "interval": DURATION}, {"port": TEXT, "targetPort": PORT})
            ),
        }
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): thing(
        {
            "groups": many(
                thing(
                    {
                        "name": TEXT,
                        "rules": many(
                            thing(
                                {"alert": TEXT, "expr": TEXT, "for": DURATION, "labels": LABELS, "annotations": LABELS}
                            )
                        ),
                    }
                )
            )
        }
    ),
    ("cert-manager.io/v1", "Issuer"): thing(
        {
            "acme": thing(
                {
                    "email": TEXT,
                    "server": {"type": "string", "pattern": "^https://"},
                    "privateKeySecretRef": thing({"name": TEXT}),
                    "solvers": many(
                        thing(
                            {
                                "http01": thing(
                                    {
                                        "ingress": thing(
                                            {},
                                            {"ingressClassName": TEXT, "serviceType": one_of("ClusterIP", "NodePort")},
                                        )
                                    }
                                )
                            }
                        )
                    ),
                }
            )
        }
    ),
    ("cert-manager.io/v1", "Certificate"): thing(
        {
            "secretName": TEXT,
            "dnsNames": TEXTS,
            "issuerRef": thing({"name": TEXT, "kind": one_of("Issuer", "ClusterIssuer")}),
        },
        {
            "privateKey": thing(
                {
                    "algorithm": one_of("RSA", "ECDSA"),
                    "size": {"type": "integer"},
                    "rotationPolicy": one_of("Always", "Never"),
                }
            )
        },
    ),
    ("external-secrets.io/v1", "SecretStore"): thing(
        {
            "provider": thing(
                {
                    "oracle": thing(
                        {
                            "region": TEXT,
                            "vault": TEXT,
                            "principalType": one_of("Workload"),
                            "serviceAccountRef": thing({"name": TEXT}),
                        }
                    )
                }
            )
        }
    ),
    ("external-secrets.io/v1", "ExternalSecret"): thing(
        {
            "refreshInterval": DURATION,
            "secretStoreRef": thing({"kind": one_of("SecretStore"), "name": TEXT}),
            "target": thing({"name": TEXT}, {"template": thing({"type": TEXT})}),
            "data": many(thing({"secretKey": TEXT, "remoteRef": _REMOTE})),
        }
    ),
}


def schema_of(api_version: str, kind: str) -> Schema:
    """Returns the schema of a custom kind.

    Raises:
        KeyError: It is not stated here.
    """
    metadata = thing({"name": TEXT}, {"namespace": TEXT, "labels": LABELS, "annotations": LABELS})
    return thing(
        {
            "apiVersion": {"const": api_version},
            "kind": {"const": kind},
            "metadata": metadata,
            "spec": SPECS[api_version, kind],
        }
    )


_SOURCE_OF_DATA = thing({"type": one_of("prometheus"), "uid": one_of("${datasource}")})
_PANEL = thing(
    {
        "id": {"type": "integer", "minimum": 1},
        "title": TEXT,
        "description": TEXT,
        "type": one_of("timeseries", "stat"),
        "datasource": _SOURCE_OF_DATA,
        "gridPos": thing({side: {"type": "integer", "minimum": 0, "maximum": 100} for side in "xywh"}),
        "targets": many(
            thing({"datasource": _SOURCE_OF_DATA, "expr": TEXT, "legendFormat": TEXT, "refId": {"pattern": "^[A-Z]$"}})
        ),
        "fieldConfig": thing({"defaults": {"type": "object", "required": ["unit"]}, "overrides": {"type": "array"}}),
        "options": {"type": "object"},
    }
)
# The model of Grafana's dashboards (schema version 39), as far as it is used here.
DASHBOARD = thing(
    {
        "uid": {"type": "string", "pattern": "^[a-z0-9-]{1,40}$"},
        "title": TEXT,
        "tags": TEXTS,
        "timezone": one_of("utc", "browser"),
        "schemaVersion": {"const": 39},
        "version": {"type": "integer"},
        "editable": {"type": "boolean"},
        "refresh": DURATION,
        "time": thing({"from": TEXT, "to": TEXT}),
        "templating": thing({"list": many({"type": "object", "required": ["name", "type", "query"]})}),
        "annotations": thing({"list": {"type": "array"}}),
        "panels": many(_PANEL),
    }
)
