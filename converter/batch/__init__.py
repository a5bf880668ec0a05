"""`trtsmith batch`: runs many conversions, on this machine or a cluster, with a cache and result pages."""
