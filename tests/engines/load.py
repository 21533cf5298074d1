"""A closed loop of streamed completions: ``python load.py URL MODEL CONCURRENCY REQUESTS TOKENS``.

Prints requests a second. The same requests every time, each with a prompt of its own. Fails where one fails.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
import urllib.request


def main(url: str, model: str, concurrency: int, requests: int, tokens: int) -> float:
    """Requests a second."""
    left = iter(range(requests))
    failed: list[str] = []
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            text = "".join(random.Random(number).choices("abcdefgh ", k=100))
            body = {"model": model, "prompt": text, "max_tokens": tokens, "ignore_eos": True, "stream": True}
            headers = {"Content-Type": "application/json"}
            asked = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), headers)
            try:
                with urllib.request.urlopen(asked) as answer:
                    for _ in answer:
                        pass
            except OSError as error:
                failed.append(str(error))
                return

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit(failed[0])
    return requests / (time.perf_counter() - began)


if __name__ == "__main__":
    print(f"{main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])):.3f}")  # noqa: T201
