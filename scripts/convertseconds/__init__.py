"""Times conversions of networks of real size."""
