"""Who may let the agent do what: sensitive paths, rules, modes, roles, and the answers people
gave."""
