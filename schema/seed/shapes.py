"""The values that sessions are put together from: environments, resources, shared memory, scripts, statistics.

All of it is spelled as COPY text once, so that a row only picks and joins. Nothing here is bad; `mistakes` is.
"""

from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from schema.seed.copytext import array_field, escape, json_field

T = TypeVar("T")

# Text and numbers alike, as users and releases wrote them. JSON, already spelled.
SHMEM_NUMBERS: Final = ("67108864", "67108864", "134217728", "268435456", "1073741824")
SHMEM_SPELLINGS: Final = (
    *('"64m"', '"64MB"', '"1.5 GiB"', '"536_870_912"', '"67108864.0"', '"100 bytes"', '"67108864"', '"1g"'),
    *('" 128m"', '"256M "', '"2GB"', '"512 mib"', '"65536K"', '"1_024 kB"', '"0.5g"', '"0"', "0", "null"),
)

SCRIPTS: Final = tuple(
    escape(script)
    for script in (
        "#!/bin/sh\nset -e\npip install --user -r /home/work/requirements.txt\n",
        '#!/bin/bash\necho "preparing $(hostname)"\nmkdir -p /home/work/.cache\nln -sf /data /home/work/data\n',
        "#!/bin/sh\n" + "".join(f"cp -r /pipeline/vfroot/stage{n} /home/work/stage{n} || true\n" for n in range(24)),
        "#!/bin/sh\r\nprintf 'written on Windows\\r\\n'\r\n",
    )
)

COMMANDS: Final = tuple(
    escape(command)
    for command in (
        "python train.py --epochs 90 --lr 0.1",
        "bash /home/work/run.sh > /home/work/run.log 2>&1",
        "torchrun --nproc-per-node 8 finetune.py",
        "python -m pipeline.task \\\n  --config /pipeline/config.yaml",
        "",
        "/opt/kernel/serve --model /models --port 8000",
    )
)

PORTS: Final = ("{8080}", "{8000,8001}", "{9090,3000,6006}", "{5000}")

NAMES: Final = (
    *("jupyter", "train-resnet50", "finetune-llama", "etl-nightly", "notebook", "eval-mmlu", "sd-webui", "bert-base"),
    *("vscode", "rag-index", "whisper-large", "ablation", "class-2024", "mpi-test", "protein-fold", "tokenize-corpus"),
)

_VALUES: Final = (
    ("HTTP_PROXY", "http://proxy.internal:3128"),
    ("http_proxy", "http://proxy.internal:3128"),
    ("NO_PROXY", "localhost,127.0.0.1,.internal"),
    ("JAVA_OPTS", "-Xmx4g -Dfile.encoding=UTF-8 -Dmode=fast=1"),
    ("CUDA_VISIBLE_DEVICES", "0,1"),
    ("OMP_NUM_THREADS", "4"),
    ("EMPTY", ""),
    ("PROMPT", 'say "hi" to C:\\work'),
    ("SSH_KEY", "-----BEGIN KEY-----\nMIIB/w==\n-----END KEY-----\n"),
    ("_PRIVATE", "{not json}"),
    ("PYTHONPATH", "/home/work/lib:/opt/lib"),
    ("TZ", "Asia/Seoul"),
    ("NCCL_SOCKET_IFNAME", "ib0"),
    ("TABBED", "a\tb"),
)
# What launching a session adds to its object; JSON values of every kind occur.
_LAUNCHED: Final = (
    {"SUDO_SESSION_ENABLED": "1"},
    {"BACKENDAI_ACCESS_MODE": "internal", "SUDO_SESSION_ENABLED": "1"},
    {"BACKENDAI_RETRIES": 3, "BACKENDAI_DEBUG": True},
    {"BACKENDAI_SERVICE": None, "BACKENDAI_RATIO": 0.5},
    {"BACKENDAI_PRESET": {"name": "gpu", "ports": [8080]}, "BACKENDAI_DEBUG": False},
)


def pick(rng: Random, pool: tuple[T, ...]) -> T:
    """One of a pool; not by `choice()`, whose draws have changed between releases of Python."""
    return pool[int(rng.random() * len(pool))]


@dataclass(frozen=True, slots=True)
class Environment:
    """One set of variables in the forms that it takes; each is COPY text."""

    entries: str
    """As the list of a kernel."""
    asked: str
    """As a JSON object of strings."""
    launched: str
    """As a JSON object, with what launching added."""


EMPTY_ENVIRONMENT: Final = Environment("{}", "{}", json_field(_LAUNCHED[0]))


def environments(rng: Random, count: int) -> tuple[Environment, ...]:
    """Make a pool of environments, each of one to eight variables."""
    return tuple(_environment(rng) for _ in range(count))


def _environment(rng: Random) -> Environment:
    asked = {"RUN_TAG": f"{int(rng.random() * 2**40):010x}"}
    for _ in range(int(rng.random() * 8)):
        key, value = pick(rng, _VALUES)
        asked[key] = value
    entries = [f"{key}={value}" for key, value in asked.items()]
    if rng.random() < 0.03:
        entries.insert(0, "RUN_TAG=overridden by the later one")
    return Environment(array_field(entries), json_field(asked), json_field({**asked, **pick(rng, _LAUNCHED)}))


@dataclass(frozen=True, slots=True)
class Resources:
    """What each kernel of a role asks for."""

    slots: tuple[tuple[str, str], ...]
    """Names and quantities of its allocations; zeros occur."""
    requested: str
    """The same in the options' spelling: a JSON list, memory sometimes as text with a unit."""


_ACCELERATORS: Final = (
    *(("cuda.device", quantity) for quantity in ("1", "2", "8", "0")),
    *(("cuda.shares", quantity) for quantity in ("0.5", "0.25", "1.75", "0")),
    *((name, "1") for name in ("rocm.device", "tpu.device", "ipu.device", "atom.device", "warboy.device")),
    *((name, "2") for name in ("atom-plus.device", "atom-max.device", "gaudi2.device", "rngd.device")),
    ("hyperaccel-lpu.device", "1"),
)


def resources(rng: Random, count: int) -> tuple[Resources, ...]:
    """Make a pool of resource requests."""
    return tuple(_resources(rng) for _ in range(count))


def _resources(rng: Random) -> Resources:
    gigabytes = pick(rng, (2, 4, 8, 16, 32, 64, 256))
    cores = pick(rng, ("1", "2", "4", "8", "16", "0.5"))
    slots = [("cpu", cores), ("mem", str(gigabytes * 2**30))]
    if rng.random() < 0.6:
        slots.append(pick(rng, _ACCELERATORS))
    memory = pick(rng, (f"{gigabytes}g", f"{gigabytes} GiB", str(gigabytes * 2**30), f"{gigabytes * 1024}M"))
    requested = [{"resource_type": name, "quantity": memory if name == "mem" else quantity} for name, quantity in slots]
    return Resources(tuple(slots), json_field(requested))


def resource_opts(rng: Random) -> str | None:
    """A kernel's resource_opts as JSON text; None for the releases and users that gave none."""
    draw = rng.random()
    if draw < 0.1:
        return None
    if draw < 0.16:
        return "{}"
    if draw < 0.2:
        return '{"allow_fractional_resource_fragmentation": true}'
    shmem = pick(rng, SHMEM_NUMBERS if draw < 0.6 else SHMEM_SPELLINGS)
    if draw < 0.3:
        return f'{{"shmem": {shmem}, "allow_fractional_resource_fragmentation": false}}'
    return f'{{"shmem": {shmem}}}'


_STAT = (
    '{{"{name}": {{"current": "{current}", "capacity": "{capacity}", "pct": "{pct}", "unit_hint": "{unit}", '
    '"stats.min": "0", "stats.max": "{capacity}", "stats.sum": "{total}", "stats.avg": "{current}", '
    '"stats.diff": "0", "stats.rate": "{pct}", "stats.version": null}}'
)


def last_stats(rng: Random, count: int) -> tuple[tuple[str, str], ...]:
    """Make a pool of statistics of about 1 kB, each in two parts: a number goes in between."""
    pool = []
    for _ in range(count):
        parts = []
        for name, unit in (("cpu_util", "percent"), ("mem", "bytes"), ("io_read", "bytes"), ("net_rx", "bytes")):
            current, capacity = int(rng.random() * 10**9), 10**9 + int(rng.random() * 10**9)
            pct = f"{rng.random() * 100:.2f}"
            parts.append(
                _STAT.format(
                    name=name, current=current, capacity=capacity, pct=pct, unit=unit, total=int(rng.random() * 10**12)
                )
            )
        pool.append((", ".join([parts[0], *(part[1:] for part in parts[1:])]) + ', "cpu_used": {"current": "', '"}}'))
    return tuple(pool)
