"""How fast clients may go: rates, and what each client's quotas are. Pure: no clock, no loop."""
