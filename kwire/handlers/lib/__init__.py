"""What several handlers share and what is no API: a request's surroundings, waiting, look-ups."""
