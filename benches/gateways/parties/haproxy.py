"""HAProxy, bare and with the checks of a token that it has."""

from sites import AUDIENCE, ISSUER, KEPT


def plain(site):
    return _start(site, "")


def checking(site):
    key = f"{site.keys}/{site.algorithm}.pem"
    # What the gateway checks too: the algorithm, the issuer, the audience, the signature, the times.
    return _start(site, f"""
  http-request set-var(txn.bearer) http_auth_bearer
  http-request set-var(txn.alg) var(txn.bearer),jwt_header_query('$.alg')
  http-request set-var(txn.iss) var(txn.bearer),jwt_payload_query('$.iss')
  http-request set-var(txn.aud) var(txn.bearer),jwt_payload_query('$.aud')
  http-request set-var(txn.exp) var(txn.bearer),jwt_payload_query('$.exp','int')
  http-request set-var(txn.now) date()
  http-request deny deny_status 401 unless {{ var(txn.alg) -m str {site.algorithm} }}
  http-request deny deny_status 401 unless {{ var(txn.iss) -m str {ISSUER} }}
  http-request deny deny_status 401 unless {{ var(txn.aud) -m str {AUDIENCE} }}
  http-request deny deny_status 401 unless {{ var(txn.bearer),jwt_verify(txn.alg,"{key}") 1 }}
  http-request deny deny_status 401 if {{ var(txn.exp),sub(txn.now) -m int lt 0 }}""")


def _start(site, checks):
    proto = " proto h2" if site.http2 else ""
    log = "\n  log global\n  option httplog" if site.access_log else ""
    return ["haproxy", "-q", "-f", site.write("haproxy.cfg", f"""
global
  nbthread {site.workers}
  no strict-limits
  maxconn {site.connections + KEPT}
  tune.bufsize 32768{chr(10) + '  log stdout format raw local0' if site.access_log else ''}
defaults
  mode http
  timeout connect 5s
  timeout client 120s
  timeout server 120s{log}
frontend clients
  maxconn {site.connections}
  bind 127.0.0.1:{site.port}{proto}{checks}
  acl prod path_beg /v1/table/prod
  use_backend catalog if prod
backend catalog
  http-reuse always
  server one 127.0.0.1:{site.catalog}{" proto h2" if site.catalog_http2 else ""}
""")]
