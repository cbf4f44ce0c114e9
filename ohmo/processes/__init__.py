"""Runs commands so that nothing of them outlives the call, and no call outlives the daemon.

Import from the modules: this file stays empty because the keeper, a process of its own, is to start
within milliseconds.
"""
