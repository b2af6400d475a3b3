"""What is asked of a party: each load has `run(server, seconds)`, which answers with a `Done`.

One that needs a catalog of its own has `catalog(port, folder)` as well, the command that starts it.
"""

import dataclasses


@dataclasses.dataclass
class Done:
    """What a load was answered; everything else that it got was a failure, and ended the measurement."""

    units: float
    # A second.
    rate: float
    # Of a request, in milliseconds; none where they mean nothing.
    p50: float | None = None
    p99: float | None = None
    p999: float | None = None
    # The p99 of the median fiftieth of a second.
    calm: float | None = None


# One description of a table: path and body.
DESCRIBE = ("/v1/table/prod%24t1/describe?delimiter=%24", '{"id":["prod","t1"],"check_declared":false}')
