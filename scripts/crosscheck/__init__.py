"""Judges libraries for aarch64 on x86_64: what is in them, and what they do by emulation."""
