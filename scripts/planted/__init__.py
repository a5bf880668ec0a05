"""Plants errors in models, to see that the search for a node finds each of them."""
