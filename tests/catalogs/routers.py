"""Catalogs of the contract that route with Flask or Starlette: on the decoded path.

usage: routers.py flask|starlette

Prints its port, and answers every request with what the router found: the template and its parameters.
"""

import sys
import threading

router = sys.argv[1]
PATHS = [
    "/v1/namespace/{id}/list",
    "/v1/namespace/{id}/table/list",
    "/v1/namespace/{id}/{operation}",
    "/v1/table/{id}/version/{operation}",
    "/v1/table/{id}/{operation}",
]


def flask(port_ready):
    from flask import Flask, jsonify
    from werkzeug.serving import make_server

    app = Flask(__name__)

    def add(template):
        rule = template.replace("{", "<").replace("}", ">")

        def found(**names):
            return jsonify(template=template, **names)

        app.add_url_rule(rule, template, found, methods=["GET", "POST"])

    for template in PATHS:
        add(template)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    port_ready(server.server_port)
    server.serve_forever()


def starlette(port_ready):
    import socket

    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def add(template):
        async def found(request):
            return JSONResponse({"template": template, **request.path_params})

        return Route(template, found, methods=["GET", "POST"])

    app = Starlette(routes=[add(template) for template in PATHS])
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    port_ready(listener.getsockname()[1])
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


def ready(port):
    print("port", port, flush=True)


# Ends when the starting process closes standard input.
threading.Thread(target=lambda: (sys.stdin.read(), __import__("os")._exit(0)), daemon=True).start()
{"flask": flask, "starlette": starlette}[router](ready)
