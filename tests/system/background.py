"""Something that goes on beside a test, in a thread, until the end of a block.

    class Writer(Background):
        def run(self):
            while not self.is_over.wait(0.01): ...

    with Writer() as writer: ...
"""

import threading


class Background:
    def __init__(self):
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        raise NotImplementedError

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
