"""The running broker: its partitions, its metadata, and whoever waits for something."""
