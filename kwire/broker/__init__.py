"""The running broker: its partitions, its metadata, its coordinators, and requests that wait."""
