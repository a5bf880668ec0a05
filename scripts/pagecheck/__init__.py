"""Pages looked at in headless Chromium: how large, how fast, what they ask for."""
