"""Makes HTML reports: self-contained files without network requests."""
