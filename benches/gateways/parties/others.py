"""Traefik and Caddy, and the two that are built here: a minimal Pingora proxy and the bare loop on hyper."""

import os

from sites import KEPT


def traefik(site):
    rules = site.write("traefik.rules.yml", f"""
http:
  routers: {{all: {{rule: "PathPrefix(`/v1/table/prod`)", service: catalog, entryPoints: [clients]}}}}
  services: {{catalog: {{loadBalancer: {{servers: [{{url: "http://127.0.0.1:{site.catalog}"}}]}}}}}}
""")
    settings = site.write("traefik.yml", f"""
entryPoints: {{clients: {{address: "127.0.0.1:{site.port}"}}}}
providers: {{file: {{filename: {rules}}}}}
global: {{checkNewVersion: false, sendAnonymousUsage: false}}
log: {{level: ERROR}}
serversTransport: {{maxIdleConnsPerHost: {KEPT}}}
""")
    return [f"{os.environ['NSGATE_PEERS_VENV']}/bin/traefik", f"--configFile={settings}"]


def caddy(site):
    settings = site.write("Caddyfile", f"""
{{
  admin off
  auto_https off
}}
http://127.0.0.1:{site.port} {{
  handle /v1/table/prod* {{
    reverse_proxy 127.0.0.1:{site.catalog} {{
      transport http {{
        keepalive_idle_conns_per_host {KEPT}
      }}
    }}
  }}
}}
""")
    return [f"{os.environ['NSGATE_PEERS_VENV']}/bin/caddy", "run", "--config", settings, "--adapter", "caddyfile"]


def pingora(site):
    return _rust(site, "pingora")


def bare_shared(site):
    return _rust(site, "bare", "shared")


def bare_cores(site):
    return _rust(site, "bare", "cores")


def _rust(site, program, *words):
    return [f"{os.environ['NSGATE_PEERS_RUST']}/{program}", *words,
            f"127.0.0.1:{site.port}", f"127.0.0.1:{site.catalog}", str(site.workers)]
