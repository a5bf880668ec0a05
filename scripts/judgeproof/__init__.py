"""Tests the judge: correct runs that must agree, and errors planted in outputs and graphs that must not."""
