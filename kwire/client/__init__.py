"""A small client of Kafka's protocol: for the command line, and for brokers among themselves.

- ``settings``: time-outs, sizes and back-off; every one has a default.
- ``errors``: the failures between a client and a broker, apart from Kafka's error codes.
- ``connection``: one connection. Requests are pipelined, and answered in order.
- ``versions``: ApiVersions, and the version that a request is sent in.
- ``peer``: a broker's address, with a connection that is opened again when it is needed.
- ``cluster``: the brokers that bootstrap addresses lead to; leaders, coordinators, retries.
- ``leaders``: one question about many partitions, put to the leader of each.
- ``offsets``, ``fetcher``, ``producer``, ``members``: the work of consumers and producers.

Rules:

- The stream to a broker is opened by a function that the user of the package gives, so that TLS or
  a stream in memory fit in. Random numbers come from outside too.
- The package knows the protocol and records, but neither broker nor command line.
- Everything is bounded: the size of a response, the requests in flight, the time for an answer.
"""
