"""Tools for tests: brokers in another process or in this one, and ways to wait for states."""
