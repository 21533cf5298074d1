"""How evidence gets in: one room a kind of evidence."""
