"""Script: the command line, interrupted at a chosen moment and then again and again until it ends.

python signalled.py MOMENT TEXT ARGUMENTS...

MOMENT: import, say, call, file or exit; TEXT: a module, part of a line, a function's qualified name, a file that is
written.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

PERIOD = 0.3  # seconds; several fall into the second in which a repeated signal counts as the same


def interrupt() -> None:
    def repeat() -> None:
        for number in (signal.SIGTERM, signal.SIGINT) * 100:
            time.sleep(PERIOD)
            os.kill(os.getpid(), number)

    threading.Thread(target=repeat, daemon=True).start()
    os.kill(os.getpid(), signal.SIGINT)


class OnImport:
    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, *_: Any) -> None:
        if name == self.name:
            sys.meta_path.remove(self)
            interrupt()


def main() -> None:
    moment, text = sys.argv[1:3]
    sys.argv = ["evalplugin", *sys.argv[3:]]
    if moment == "import":
        sys.meta_path.insert(0, OnImport(text))
    elif moment == "exit":
        atexit.register(interrupt)
    elif moment == "call":

        def called(frame: FrameType, event: str, _: Any) -> None:
            if event == "call" and frame.f_code.co_qualname == text:
                sys.setprofile(None)
                interrupt()

        sys.setprofile(called)
    elif moment == "file":

        def wait() -> None:
            while not Path(text).exists():
                time.sleep(0.05)
            interrupt()

        threading.Thread(target=wait, daemon=True).start()
    else:
        import click

        echo = click.echo

        def heard(message: Any = None, *args: Any, **kwargs: Any) -> None:
            echo(message, *args, **kwargs)
            if text in str(message):
                interrupt()

        click.echo = heard
    runpy.run_module("evalplugin", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
