"""`trtsmith batch`: many conversions, on this machine or on a cluster, with a cache and pages of what came of them."""
