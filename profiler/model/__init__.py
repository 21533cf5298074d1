"""What a run and a diagnosis are: the ground floor, without I/O."""
