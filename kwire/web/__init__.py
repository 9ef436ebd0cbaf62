"""The HTTP port of a broker: metrics, health, a page, in a thread with an event loop of its own.

Off unless ``kwire.http.listen`` (``--http HOST:PORT``) is set. It needs the extra ``web``.

To add routes:

1. Write a module with ``routes(broker_calls: BrokerCalls) -> list[starlette.routing.Route]``. Its
   endpoints are ``async`` functions (Starlette would run a plain function in one of anyio's
   threads).
2. Name the module in ``kwire.web.app.PAGES``; a view of the page belongs to ``kwire.web.page``.
3. Get data only with ``await broker_calls.run(gather, *arguments)``. The ``async`` function
   ``gather(observed, *arguments)`` runs in the broker's event loop. It returns plain values
   (numbers, texts, tuples), never an object that the broker changes later. A loop over topics or
   partitions calls ``await slices.give_way()`` for each one (``budget.slices``), so that Kafka's
   clients have their turn.
4. Make text or HTML from the data in the endpoint, in the thread of the HTTP port.

Rules:

- No code here occupies the broker's event loop for longer than ``SLICE_S``.
- An attacker who reaches this port can neither slow down Kafka's port much (``governor``), nor take
  many descriptors or much memory (``connections``), nor read through a browser (``guard``).
- Web libraries are imported in that thread, and only if the port is switched on.
"""
