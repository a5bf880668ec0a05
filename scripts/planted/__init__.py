"""Plants errors in models, to test that the search for the faulty node finds each of them."""
