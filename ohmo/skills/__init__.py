"""Skills: folders with instructions for a kind of work, as the Agent Skills specification writes
them (agentskills.io), and where they come from."""
