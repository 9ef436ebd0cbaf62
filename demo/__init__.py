"""The demo: real flights through kwire, with a crash in the middle, checked against the file."""
