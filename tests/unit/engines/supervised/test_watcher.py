"""What the watcher promises its owner: a callback for what it was registered for, only."""

import os

from wharfinger.engines.supervised.watcher import Watcher


def test_news_of_a_closed_descriptor_is_not_its_successors() -> None:
    # The kernel gives a number out again at once; the news of this round were of the former.
    watcher = Watcher()
    watcher.open()
    (first, first_end), (second, second_end), (quiet, quiet_end) = os.pipe(), os.pipe(), os.pipe()
    called: list[str] = []

    def replace(mine: int, other: int) -> None:
        called.append("replaced")
        watcher.remove(mine)
        watcher.remove(other)
        os.dup2(quiet, other)
        watcher.add(other, lambda: called.append("quiet"))

    try:
        watcher.add(first, lambda: replace(first, second))
        watcher.add(second, lambda: replace(second, first))
        os.write(first_end, b"x")
        os.write(second_end, b"x")
        watcher.wait(1.0)
        assert called == ["replaced"]
    finally:
        watcher.close()
        for descriptor in (first, first_end, second, second_end, quiet, quiet_end):
            os.close(descriptor)
