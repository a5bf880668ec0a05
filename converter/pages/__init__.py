"""Pages to look at: self-contained HTML files, which make no request to any network."""
