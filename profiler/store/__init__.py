"""Opening a run, and the derived tables beside it."""
