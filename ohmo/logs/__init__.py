"""The log: JSON lines in ``logs/ohmo.jsonl``, readable lines on a terminal, secrets blotted out,
and never a reason to stop or wait.

Rooms say ``structlog.get_logger().info("turn.started", turn=…, thread=…)``. The caller only queues;
a thread cleans, writes and rotates. What does not fit into the queue or onto the disk is counted,
and the count is written as soon as there is room.
"""
