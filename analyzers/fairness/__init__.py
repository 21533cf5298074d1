"""Is the comparison fair: rules that say pass, fail, unknown or not applicable, with the numbers."""
