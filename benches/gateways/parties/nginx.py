"""nginx: the bare proxy, and the catalog that all have behind them."""

import json

from sites import KEPT

NEVER = 100_000_000


def start(site):
    listen = f"127.0.0.1:{site.port} backlog=4096" + (" http2" if site.http2 else "")
    log = f"access_log {site.folder}/nginx.access;" if site.access_log else "access_log off;"
    streaming = "proxy_request_buffering off; proxy_buffering off;" if site.streaming else ""
    if site.piece:
        streaming += (f" client_body_buffer_size {site.piece}; proxy_buffer_size {site.piece};"
                      f" proxy_buffers 8 {site.piece};")
    return ["nginx", "-p", site.folder, "-c", site.write("nginx.conf", f"""
worker_processes {site.workers}; worker_rlimit_nofile 20000;
daemon off; pid {site.folder}/nginx.pid; error_log {site.folder}/nginx.error;
events {{ worker_connections {site.connections + KEPT}; }}
http {{
  {log}
  keepalive_requests {NEVER}; client_max_body_size 0; client_body_buffer_size 64k;
  upstream catalog {{ server 127.0.0.1:{site.catalog}; keepalive {KEPT}; keepalive_requests {NEVER}; }}
  server {{
    listen {listen};
    location / {{ return 404; }}
    location /v1/table/prod {{
      proxy_pass http://catalog; proxy_http_version 1.1; proxy_set_header Connection ""; {streaming}
    }}
  }}
}}
""")]


def catalog(folder, port, http2):
    """Answers every description at once, with the names that it was asked by."""
    def answer(namespace):
        fields = {"table": "t1", "namespace": [namespace], "location": f"s3://bucket/{namespace}/t1.lance",
                  "managed_versioning": True, "x": "x" * 60}
        return json.dumps(fields)
    path = f"{folder}/catalog.conf"
    with open(path, "w") as file:
        file.write(f"""
worker_processes 1; worker_rlimit_nofile 20000; daemon off; pid {folder}/catalog.pid; error_log {folder}/catalog.error;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests {NEVER}; default_type application/json; client_body_buffer_size 64k;
  server {{
    listen 127.0.0.1:{port} backlog=4096{" http2" if http2 else ""};
    location / {{ return 200 '{answer("prod")}'; }}
    location /v1/table/warehouse {{ return 200 '{answer("warehouse")}'; }}
  }}
}}
""")
    return ["nginx", "-p", folder, "-c", path]
