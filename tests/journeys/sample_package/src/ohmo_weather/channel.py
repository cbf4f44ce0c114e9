"""A channel whose module is there and exports no MANIFEST: it is reported and skipped."""
