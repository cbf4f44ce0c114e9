"""The only place that knows everyone: builds all, starts nothing."""
