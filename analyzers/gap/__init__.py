"""The decomposition of a gap: accounting, step-time shapes, ledger, intervals."""
