"""Get kernels from an opfarm with nothing but Celery (and zstandard and msgpack to unpack them).

python submit.py BROKER_URL RESULT_URL STORE_FOLDER FOLDER

BROKER_URL and RESULT_URL are the farm's (`celery -A farm doctor` shows them), STORE_FOLDER is where its store is
mounted here, FOLDER is where the kernels shall lie.
"""

import sys
from pathlib import Path

import msgpack
import zstandard
from celery import Celery

MANIFEST = {
    "version": 1,
    "soc": "x86_64",
    "toolchain": "host",
    "ops": [
        {
            "name": "add",
            "type": "Add",
            "inputs": [{"shape": [1024], "dtype": "float32"}] * 2,
            "outputs": [{"shape": [1024], "dtype": "float32"}],
            "source": {
                "text": 'extern "C" void add(const float *a, const float *b, float *c, int n)'
                " { for (int i = 0; i < n; i++) c[i] = a[i] + b[i]; }\n"
            },
        }
    ],
}


def unpack(bundle: bytes, folder: Path) -> None:
    """Write the files of a bundle (the format: farm/store/bundle.py)."""
    content = msgpack.unpackb(zstandard.decompress(bundle[48:]))
    for file in content["files"]:
        path = folder / file["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file["data"])
        path.chmod(file["mode"])


def main(broker_url: str, result_url: str, store: str, folder: str) -> int:
    """Submit, wait, unpack."""
    app = Celery("anything", broker=broker_url, backend=result_url)
    task = app.send_task("farm.submit", args=[MANIFEST], kwargs={"mode": "enable", "hold": 60}, queue="farm.jobs")
    answer = task.get(timeout=300)
    if "error" in answer:
        sys.exit(f"{answer['error']['message']}: {answer['error']['fix']}")
    for op in answer["ops"]:
        for path in set(op["files"].values()):
            unpack((Path(store) / path).read_bytes(), Path(folder) / op["name"])
        print(op["name"], op["outcome"], *sorted(op["files"]))
    return 0 if answer["state"] == "done" else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
