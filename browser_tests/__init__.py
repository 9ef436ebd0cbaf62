"""Tests of the page in headless Chromium: `make browser`. Without Chromium they are skipped."""
