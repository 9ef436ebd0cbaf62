"""kwire for tests: brokers in a process of their own or in this one, and ways to wait for them."""
