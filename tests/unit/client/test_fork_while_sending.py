"""A process that forks while another of its threads sends a message: the child inherits no lock that nobody frees."""

from __future__ import annotations

import os
import threading

from farm.client import claiming


def test_a_fork_waits_for_the_message_and_the_child_can_send() -> None:
    sending, may_end, sent = threading.Event(), threading.Event(), threading.Event()

    def send() -> None:
        with claiming._MESSAGING:
            sending.set()
            may_end.wait(5)
            sent.set()

    thread = threading.Thread(target=send)
    thread.start()
    sending.wait(5)
    threading.Timer(0.1, may_end.set).start()
    child = os.fork()
    if child == 0:
        os._exit(0 if sent.is_set() and claiming._MESSAGING.acquire(timeout=2) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
