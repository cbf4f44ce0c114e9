"""What the owner's own programs, endpoints and prompts say before and after things happen."""
