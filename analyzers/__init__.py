"""Tables in, findings out: pure functions over what the readers found."""
