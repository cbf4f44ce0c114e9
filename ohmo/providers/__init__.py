"""Model providers: each a cover that imports no SDK, a wire that makes bytes, and a client that
talks."""
