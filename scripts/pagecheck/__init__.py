"""Inspects pages in headless Chromium: their size, speed and requests."""
