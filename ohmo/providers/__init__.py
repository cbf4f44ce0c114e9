"""Model providers: each a manifest that imports no SDK, a wire that makes bytes, and a client that
talks."""
