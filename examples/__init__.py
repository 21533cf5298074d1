"""Runs that ship with the package, and the script that generates the simulated ones; README.md says which is which."""
