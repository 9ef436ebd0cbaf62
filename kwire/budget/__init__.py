"""The budget of a request: limits on what one client costs the broker and the other clients.

The broker does a piece of work for a request only if a limit bounds the cost of that piece. Four
costs are bounded:

- **Elements**: the arrays of one request hold at most ``kwire.request.max.elements`` together.
- **Bytes held**: decompressed or collected bytes have a limit, which is checked before memory is
  taken for them.
- **Bytes answered**: a response has at most ``kwire.response.max.bytes``, records not counted.
- **Time on the event loop**: it is measured (``work``). A request that has used up its slice waits
  for its next slice, and every other connection has a turn before that.

Rules:

- Work that occupies the processor or the disk for long runs in a thread. Each kind of work has
  threads of its own (``threads``), so that no kind of work waits for another kind.
- The broker stops its work for a client whose connection has ended.

Why and how: docs/decisions/0067-time-is-measured-not-priced.md; all limits: docs/LIMITS.md.
"""
