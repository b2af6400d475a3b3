"""Requests at even times by `steady`, which is the catalog behind the party as well: how long they take."""

import http.client
import json
import os

from loads import Done
from loads.idle import request
from machine import Disturbed, Failed

# Of the requests, that the load itself may send late.
LATE = 0.01
# Of the rate, that a party has to keep up with.
KEPT_UP = 0.99


class Steady:
    """`rate` descriptions a second, timed from when each was due; with 0, each connection asks again at once."""

    unit = "request"

    def __init__(self, rate, connections=64):
        self.rate, self.connections = rate, connections

    def catalog(self, port, folder):
        return [f"{os.environ['NSGATE_PEERS_RUST']}/steady", str(port)]

    def run(self, server, seconds, warm_up=False):
        said = self.ask(server, seconds)
        requests, took = said["requests"], said["micros"] / 1e6
        if said["failed"] or said["refused"] or not requests:
            raise Failed(f"{server.name}: of {requests} requests {said['refused']} were refused, "
                         f"{said['failed']} connections broke: {said['why']}")
        # While it warms up, whoever has not asked the catalog before opens its connections, and takes its time.
        if warm_up:
            return Done(requests, requests / took)
        if said["late"] > LATE * requests:
            raise Disturbed(f"{server.name}: the load sent {said['late']} of {requests} requests too late: "
                            "its core was taken away from it")
        if requests / took < KEPT_UP * self.rate:
            raise Disturbed(f"{server.name} answers {requests / took:,.0f} of {self.rate:,} requests a second")
        times = (said[name] / 1e3 for name in ("p50", "p99", "p999", "calm"))
        return Done(requests, requests / took, *times)

    def ask(self, server, seconds):
        connection = http.client.HTTPConnection("127.0.0.1", server.site.catalog, timeout=seconds + 30)
        try:
            plan = f"port={server.port}&connections={self.connections}&rate={self.rate}&seconds={seconds}"
            connection.request("POST", f"/load?{plan}", request(server))
            said = json.load(connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Failed(f"{server.name}: the load ended: {error!r}") from None
        finally:
            connection.close()
        if "error" in said:
            raise Failed(f"{server.name}: {said['error']}")
        return said
