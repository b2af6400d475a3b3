"""The gateway, as an operator would run it; and another build of it, to compare the two."""

import json
import os

from sites import AUDIENCE, ISSUER, KEPT


def start(site):
    return _start(site, os.environ["NSGATE_BUILT"])


def before(site):
    return _start(site, os.environ["NSGATE_BEFORE"])


def _start(site, program):
    mounts = [{"namespace": [here], "backend": "catalog", **({} if here == there else {"backend_namespace": [there]})}
              for here, there in site.mounts]
    issuer = {"issuer": ISSUER, "audiences": [AUDIENCE], "algorithms": [site.algorithm],
              "keys": {"file": f"{site.keys}/jwks.json"}}
    catalog = {"implementation": "rest", "properties": {"uri": f"http://127.0.0.1:{site.catalog}"},
               "pool": {"max_idle": KEPT}, **({"http2": True} if site.catalog_http2 else {})}
    # JSON is YAML.
    configuration = {
        "listen": {"address": f"127.0.0.1:{site.port}", "workers": site.workers},
        "admin": {"address": f"127.0.0.1:{site.admin}"},
        "limits": {"connections": site.connections},
        "auth": {"issuers": [issuer]},
        "backends": {"catalog": catalog},
        "mounts": mounts,
        "batch": {"log": f"{site.folder}/batches.redb"},
        "telemetry": {"access_log": site.access_log},
    }
    return [program, "serve", "--config", site.write("gateway.yaml", json.dumps(configuration))]
