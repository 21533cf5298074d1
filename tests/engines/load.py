"""A closed loop of streamed completions: ``python load.py URL CONCURRENCY REQUESTS OUTPUT_TOKENS``.

Prints requests a second. The same requests every time, each with a prompt of its own.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
import urllib.request


def main(url: str, concurrency: int, requests: int, tokens: int) -> float:
    """Requests a second."""
    left = iter(range(requests))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            text = "".join(random.Random(number).choices("abcdefgh ", k=100))
            body = {"model": "tiny", "prompt": text, "max_tokens": tokens, "ignore_eos": True, "stream": True}
            headers = {"Content-Type": "application/json"}
            with urllib.request.urlopen(
                urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), headers)
            ) as answer:
                for _ in answer:
                    pass

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return requests / (time.perf_counter() - began)


if __name__ == "__main__":
    print(f"{main(sys.argv[1], *map(int, sys.argv[2:5])):.3f}")  # noqa: T201
