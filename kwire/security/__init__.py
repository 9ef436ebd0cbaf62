"""Authentication and authorization: who a client is, and what the client may do."""
