"""Pure functions from evidence and configuration to ceilings, flags and advice."""
