"""CPU time and memory of the page with many photos, uploaded over HTTP one by one.

python benchmarks/page_scale.py --photos 10000 --json docs/results/page.json

The photos are JPEG files of 640 x 480 pixels with smooth random patterns, 200 of them labelled. The
backbone is a function that takes no time (--backbone NAME: a real one). Times are those of the
processor, of server and client together.
"""

from __future__ import annotations

import argparse
import io
import threading
import time

import httpx2
import numpy as np
from PIL import Image

from anyshot.classifier.web.app import make_app
from anyshot.classifier.web.server import Server, open_socket, url_of
from anyshot.classifier.web.uploads import UploadReader
from anyshot.evaluation.report.result_files import write_results

CLASSES, LABELLED, WIDTH = 10, 200, 1280


def quick(pixels):
    """Features [n, WIDTH]: coarse pixels, repeated."""
    coarse = pixels[:, ::32, ::32].reshape(len(pixels), -1).astype(np.float32)
    return np.resize(coarse.T, (WIDTH, len(pixels))).T


def photo(label, number):
    """The bytes of a JPEG file; photos of a class share a pattern."""
    pattern = np.random.default_rng(label).integers(0, 160, (6, 8, 3))
    noise = np.random.default_rng([label, number]).integers(0, 95, (6, 8, 3))
    small = Image.fromarray((pattern + noise).astype(np.uint8))
    file = io.BytesIO()
    small.resize((640, 480), Image.Resampling.BICUBIC).save(file, "JPEG", quality=95)
    return file.getvalue()


def resident_megabytes():
    """Memory of this process."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000


def measure(client, count):
    """Upload and classify photos; return what it took."""
    keys = []
    for c in range(CLASSES):
        state = client.post("/api/classes", json={"name": f"class {c}"}).json()
        keys.append(state["classes"][-1]["id"])
    files = [photo(i % CLASSES, i) for i in range(500)]  # repeated: the page decodes each
    before, start, sent = resident_megabytes(), time.process_time(), 0
    for i in range(count):
        target = keys[i % CLASSES] if i < LABELLED else "pool"
        data = files[i % len(files)]
        sent += len(data)
        parameters = {"target": target, "name": f"{i}.jpg", "batch": "all"}
        client.post("/api/pictures", params=parameters, content=data).raise_for_status()
        if i % 1000 == 999:
            print(f"{i + 1} photos, {time.process_time() - start:.0f} s", flush=True)
    uploads = time.process_time() - start
    start = time.process_time()
    answer = client.get("/api/state").raise_for_status()
    first = time.process_time() - start
    start = time.process_time()
    photos = [answer.json()["pool"][0]["id"]]
    client.post("/api/pictures/remove", json={"photos": photos}).raise_for_status()
    change = time.process_time() - start
    return {
        "photos": count,
        "milliseconds_of_an_upload": 1000 * uploads / count,
        "megabytes_sent": sent / 1e6,
        "megabytes_of_memory": resident_megabytes() - before,
        "seconds_of_the_first_answers": first,
        "seconds_of_a_change": change,
        "megabytes_of_the_state": len(answer.content) / 1e6,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--photos", type=int, default=10_000)
    parser.add_argument("--backbone")
    parser.add_argument("--json")
    options = parser.parse_args()
    listening, ready = open_socket("127.0.0.1", 0), threading.Event()
    app = make_app(UploadReader(options.backbone or quick))
    server = Server(app, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    ready.wait()
    url = url_of(listening)
    try:
        with httpx2.Client(
            base_url=url, headers={"Origin": url.rstrip("/")}, timeout=600
        ) as client:
            found = measure(client, options.photos)
    finally:
        server.should_exit = True
        thread.join()
    for name, value in found.items():
        print(f"{name.replace('_', ' ')}: {value:.4g}")
    if options.json:
        write_results(options.json, found)


if __name__ == "__main__":
    main()
