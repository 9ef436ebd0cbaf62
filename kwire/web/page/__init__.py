"""The page on the HTTP port: the broker's topics, records, groups, transactions and logs as HTML.

- ``sampler`` samples the whole broker from time to time; lists and charts show its samples.
- ``asking`` sends a request to the broker's own handlers, so that the page has the limits, checks
  and errors of every client.
- ``site`` makes HTML from a template and answers errors, with ``formats``, ``charts`` and
  ``paging``.
- One module for each view: ``overview``, ``brokers``, ``topics``, ``records`` (with ``reading``,
  ``record_text`` and ``schemas``), ``groups``, ``producers``, ``logs``. ``views`` has all routes.
- Changes are possible only by ``admin`` and ``changes`` (with ``sessions`` and ``resetting``).
  Their routes exist only with ``kwire.http.admin.enable``.

Rules:

- Text from clients is hostile. Templates escape it (autoescape), and no code puts it into a script,
  a style or an address without quoting it. Scripts and styles come from ``static`` alone, which the
  Content-Security-Policy of ``kwire.web.guard`` enforces.
- A page has at most ``paging.PER_PAGE`` rows, however many partitions the broker has.
- A page shows its data without JavaScript. The script only keeps it fresh.
"""
