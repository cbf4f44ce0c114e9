"""One turn: ask the model, run what it wants, repeat. Knows contracts only: no store, no chat, no
permissions."""
