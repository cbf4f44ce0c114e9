"""Run in a cage that knows names by ``python -I -S -c``, before the command: what the proxy listens
at is made here, because nobody outside can, and sent out over the descriptor named first, or to the
socket whose path that is; then this becomes the command. By the image's own Python in a container:
from 3.9 on."""

import os
import sys

TYPE_CHECKING = False  # the module ``typing`` would take longer than all of this
if TYPE_CHECKING:
    import signal
    import socket
else:  # the parts in C: 8 ms and not 24
    import _signal as signal
    import _socket as socket

#: npm, pip, cargo, git and curl read one of these; node from 22.21 on, when it is told to.
NAMES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def main() -> None:
    door, outward, *argv = sys.argv[1:]
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    number = listener.fileno().to_bytes(4, sys.byteorder)
    if door.startswith("/"):
        way = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        way.connect(door)
    else:
        way = socket.socket(fileno=int(door))
    way.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, number)])
    way.close()
    listener.close()
    os.environ |= dict.fromkeys(NAMES, address)
    os.environ["NODE_USE_ENV_PROXY"] = "1"
    if outward == "inside":  # nothing of the machine's own loopback is open to it
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = "localhost,127.0.0.1,::1"
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and so by what it becomes
        signal.signal(ignored, signal.SIG_DFL)
    os.execvp(argv[0], argv)  # noqa: S606


if __name__ == "__main__":
    main()
