"""What a terminal gets and a file does not: a line that is written anew, and colours."""
