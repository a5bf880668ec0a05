"""Networks of real size, exported on the spot with random weights: how long they take to convert, and how fast they are."""
