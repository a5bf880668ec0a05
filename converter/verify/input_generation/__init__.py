"""What the inputs of a model mean, by what its nodes do with them; and made-up values that suit."""
