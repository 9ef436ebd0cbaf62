"""The budget of a request: what one client may cost the broker, and what it may cost the others.

A request is worked on only as far as its cost is known and bounded. Four things are counted:

- **Elements**: the arrays of one request hold at most ``kwire.request.max.elements`` together.
- **Bytes held**: what is decompressed or collected for a request has a limit before it is made.
- **Bytes answered**: a response has at most ``kwire.response.max.bytes``.
- **Time on the event loop**: work is counted in units (``work``). A request that has used up its
  slice waits for its next turn, and every other client has its turn before that.

Rules:

- Work that takes the processor or the disk long runs in a thread. Each kind of work has threads of
  its own (``threads``), so that no kind of work waits for another kind.
- A client whose connection has ended is not worked for any longer.

Why and how: docs/decisions/0019-every-request-has-a-price.md.
"""
