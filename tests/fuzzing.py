"""Load changed teacher packages in a separate process with limits: `python fuzzing.py package kind first last`.

Each package gives one line: "error", "works", or what went wrong. The process that reads the lines detects a crash by a
missing line, and continues after it.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path
from threading import Timer

import numpy as np

#: Time limit per package in seconds, and memory limit of the process in bytes.
SECONDS, MEMORY = 60, 4 * 2**30
ENDINGS = {-6: "abort", -8: "arithmetic", -9: "hang", -11: "segmentation fault"}


def mutate(content, rng):
    """Change bytes: flip, replace, cut, repeat or insert some, up to four times."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, max(len(data), 1)))
        size = int(rng.integers(1, 33))
        kind = rng.integers(0, 6)
        if kind == 0 and data:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            data[at : at + size] = rng.bytes(len(data[at : at + size]))
        elif kind == 2:
            del data[at : at + size]
        elif kind == 3:
            data[at:at] = data[at : at + size] * int(rng.integers(1, 4))
        elif kind == 4:
            data[at:at] = rng.bytes(size)
        else:
            data[at : at + 4] = rng.choice([b"\xff" * 4, b"\x00" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f"])
    return bytes(data)


def message(number, content):
    """Encode a field of protobuf with its usual tag."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def overlong(number, content):
    """Encode a field with a tag of five bytes and bit 32 set, which some parsers drop."""
    return _varint(number << 3 | 2 | 1 << 32) + _varint(len(content)) + content


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def hide(content, rng):
    """Append a node to the graph of a model, with one field whose tag is overlong, unknown or usual."""
    tag = (overlong, lambda n, c: message(n + 2**20, c), message)[int(rng.integers(3))]
    number, text = [(4, b"Loop"), (7, b"com.microsoft"), (4, b"Scan"), (5, message(6, b"")), (8, b"f")][rng.integers(5)]
    node = message(1, b"X") + message(2, b"unused") + message(4, b"Identity") + tag(number, text)
    weights = message(8, b"w") + tag(13, message(1, b"location") + message(2, b"/etc/hostname"))
    part = message(1, node) if rng.random() < 0.7 else message(5, weights)
    return content + (message(7, part) if rng.random() < 0.7 else tag(7, part))


def mutate_member(content, rng, change=mutate):
    """Change one member, and correct the checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    names = sorted(members)
    if change is hide or rng.random() < 0.5:  # what onnxruntime gets to see, half of the time
        names = [name for name in names if name.endswith(".onnx")]
    name = str(rng.choice(names))
    members[name] = change(members[name], rng)
    if name != "checksums.json":
        sums = {key: hashlib.sha256(value).hexdigest() for key, value in members.items() if key != "checksums.json"}
        members["checksums.json"] = json.dumps(sums).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, value in members.items():
            archive.writestr(key, value)
    return made.getvalue()


MUTATIONS = {"raw": mutate, "members": mutate_member, "tags": partial(mutate_member, change=hide)}


def fuzz(package, kind, first, last):
    """Run seeds first to last - 1 in subprocesses; return the outcomes by seed."""
    outcomes = {}
    while first < last:
        command = [sys.executable, __file__, str(package), kind, str(first), str(last)]
        folder = Path(package).parent / f"cwd_{kind}_{first}"
        folder.mkdir()
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent), "OMP_NUM_THREADS": "1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with subprocess.Popen(command, cwd=folder, env=environment, **pipes) as process:
            for line in _lines(process):
                seed, _, outcome = line.strip().partition(" ")
                outcomes[int(seed)] = outcome
        done = max((seed for seed in outcomes if seed >= first), default=first - 1)
        if done < last - 1:
            outcomes[done + 1] = f"crash ({ENDINGS.get(process.returncode, process.returncode)})"
        first = done + 2 if done < last - 1 else last
        assert list(folder.iterdir()) == [], "something was written"
        folder.rmdir()
    return outcomes


def _lines(process):
    """Yield lines; kill a process that prints nothing for too long."""
    while True:
        timer = Timer(SECONDS, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        if not line:
            return
        yield line


def watch():
    """From now on, record every attempt to write, connect or start a process."""
    seen = []

    def hook(event, args):
        if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            seen.append(f"opened {args[0]} for writing")
        elif event.startswith(("os.remove", "os.rename", "os.mkdir", "socket.", "subprocess.", "os.system", "pickle.")):
            seen.append(event)

    sys.addaudithook(hook)
    return seen


def outcome_of(load_teacher, content, rows):
    """Load a package from a file in memory and call it, if it can be loaded."""
    handle = os.memfd_create("package")
    try:
        os.write(handle, content)
        teacher = load_teacher(f"/proc/self/fd/{handle}", n_threads=1)
        P = teacher.predict_proba(rows)
    except ValueError as error:
        return "error" if str(error) else "error without a message"
    except Exception as error:
        return f"unclean error {type(error).__name__}: {str(error)[:100]}"
    finally:
        os.close(handle)
    right = P.shape == (len(rows), len(teacher.classes_)) and np.allclose(P.sum(axis=1), 1, atol=1e-2)
    return "works" if right else "answers that are no probabilities"


def main(package, kind, first, last):
    import resource

    import onnxruntime  # noqa: F401  loaded before the watch begins

    from sklearn_uhc import load_teacher

    told = os.fdopen(os.dup(1), "w")  # onnxruntime sometimes prints: only we shall be read
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    content = Path(package).read_bytes()
    teacher = load_teacher(package)
    shape = teacher.card_["inputs"][0]["shape"]
    rows = np.random.default_rng(0).normal(size=(4, *shape))
    seen = watch()
    for seed in range(first, last):
        outcome = outcome_of(load_teacher, MUTATIONS[kind](content, np.random.default_rng(seed)), rows)
        print(seed, f"forbidden: {seen}" if seen else outcome, flush=True, file=told)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
