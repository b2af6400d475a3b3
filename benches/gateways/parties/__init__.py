"""How each party is configured and started, all for the same work: each module has functions of a `Site`."""

from . import envoy, haproxy, nginx, nsgate, others

# Name: how it is started, whether it claims to check tokens.
ALL = {
    "direct": (None, False),
    "nginx": (nginx.start, False),
    "haproxy": (haproxy.plain, False),
    "haproxy-jwt": (haproxy.checking, True),
    "envoy": (envoy.plain, False),
    "envoy-jwt": (envoy.checking, True),
    "envoy-jwt-cache": (envoy.remembering, True),
    "traefik": (others.traefik, False),
    "caddy": (others.caddy, False),
    "pingora": (others.pingora, False),
    "bare-shared": (others.bare_shared, False),
    "bare-cores": (others.bare_cores, False),
    "before": (nsgate.before, True),
    "nsgate": (nsgate.start, True),
}
