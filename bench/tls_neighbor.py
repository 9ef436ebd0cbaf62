"""Well-behaved clients over TLS, which measure how long they wait beside other clients.

``python -m bench.tls_neighbor HOST:PORT SECURED:PORT CA SECONDS`` prints JSON: all waits in
seconds, by what the clients wait for. All have logged in at the second address; the topic is made
at the first one, which has no TLS.

- ``produce`` and ``deliver`` are those of ``bench.neighbor``.
- ``login``: a client connects, shakes hands, logs in, and gets an answer to a request, every
  ``LOGIN_PAUSE_S``. A login that fails is an infinite wait.
"""

import json
import math
import sys
import threading
import time
from functools import partial

from bench.load import frame_of, timed
from bench.neighbor import Waits, deliveries
from bench.tls_logins import logged_in, trusting
from kwire.protocol.messages.api_versions import ApiVersionsRequest

LOGIN_PAUSE_S = 0.1


def logins(secured: tuple[str, int], ca: str, end: float, waits: list[float]) -> None:
    """The waits of clients that are new."""
    frame = frame_of(ApiVersionsRequest(), 0)
    tls = trusting(ca)
    while time.perf_counter() < end:
        started = time.perf_counter()
        try:
            with logged_in(secured, tls) as connection:
                timed(connection, frame)
        except OSError:
            waits.append(math.inf)
        else:
            waits.append(time.perf_counter() - started)
        time.sleep(LOGIN_PAUSE_S)


def waits(bootstrap: str, secured: tuple[str, int], ca: str, seconds: float) -> Waits:
    """The waits of all clients for a while."""
    taken: Waits = {"produce": [], "deliver": [], "login": []}
    connect = partial(logged_in, secured, trusting(ca))
    end = time.perf_counter() + seconds
    newcomers = threading.Thread(target=logins, args=(secured, ca, end, taken["login"]))
    newcomers.start()
    deliveries(bootstrap, "neighbor", end, taken, connect)
    newcomers.join()
    return taken


if __name__ == "__main__":
    host, _, port = sys.argv[2].rpartition(":")
    print(json.dumps(waits(sys.argv[1], (host, int(port)), sys.argv[3], float(sys.argv[4]))))
