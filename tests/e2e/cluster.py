"""A local Anchorage service for tests: one router, some prefill and some decode processes."""

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import openai

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD_DIR = pathlib.Path(os.environ.get("ANCHORAGE_BUILD_DIR", ROOT / "build"))
TOKEN_OF_A_KEYLESS_SERVICE = "none"  # the openai client insists on some key


def free_ports(count):
    """Ports on loopback that nobody listens on. They are held until all are known, so all differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def wait_until(condition, seconds, what):
    """Polls `condition` until it returns something true, and returns that. `what` is text, or a
    function that says it."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds} s still not: {what() if callable(what) else what}")
        time.sleep(0.02)
    return result


def http_get(url, timeout=10):
    """(status, body) of a GET; (0, '') when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Metrics:
    """One scrape of a process's /metrics."""

    SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
    LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

    def __init__(self, text):
        self.text = text
        self.samples = [(name, dict(self.LABEL.findall(labels)), float(value))
                        for name, labels, value in self.SAMPLE.findall(text)]

    def names(self):
        """Names as in the TYPE lines: a histogram counts once, without _bucket, _sum and _count."""
        return set(re.findall(r"^# TYPE (\w+) ", self.text, re.MULTILINE))

    def value(self, name, **labels):
        """The sum over the samples of that name that have these labels; 0 where there is none."""
        return sum(value for sample, has, value in self.samples
                   if sample == name and labels.items() <= has.items())


@dataclasses.dataclass
class Process:
    """One program of the service; it can be stopped, killed and started again."""

    name: str
    argv: list
    admin: str  # host:port of its probes and metrics
    log_path: pathlib.Path
    environment: dict
    popen: subprocess.Popen = None

    def start(self):
        assert not self.alive(), f"{self.name} runs already"
        with open(self.log_path, "ab") as log:
            self.popen = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=subprocess.STDOUT, env=self.environment)

    def alive(self):
        return self.popen is not None and self.popen.poll() is None

    @property
    def role(self):
        return self.name.split("-")[0]

    @property
    def pid(self):
        return self.popen.pid

    def signal(self, number):
        """SIGSTOP and SIGCONT freeze and thaw it; SIGTERM begins the drain without waiting."""
        self.popen.send_signal(number)

    def kill(self):
        """SIGKILL: the process dies without a word to anybody."""
        self.popen.kill()
        self.popen.wait(10)

    def terminate(self, seconds=30):
        """SIGTERM: it drains, and must exit with status 0 in time."""
        assert self.alive(), f"{self.name} ended by itself\n{self.log_tail()}"
        self.popen.terminate()
        try:
            status = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} ignored SIGTERM for {seconds} s\n{self.log_tail()}")
        assert status == 0, f"{self.name} exited with status {status}\n{self.log_tail()}"

    def probe(self, path):
        """(status, body) of a path on its admin port."""
        return http_get(f"http://{self.admin}{path}")

    def metrics(self):
        status, text = self.probe("/metrics")
        assert status == 200, f"{self.name} /metrics answered {status}"
        return Metrics(text)

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def errors(self):
        """What it logged as an error, which no request and no peer may cause."""
        return [line for line in self.log().splitlines() if f"Z error {self.role} " in line]

    def log_tail(self, lines=40):
        return f"--- {self.name}\n" + "\n".join(self.log().splitlines()[-lines:])

    def num_threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def num_descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024


class Cluster:
    """A service on free loopback ports. Use it as a context manager, or start() and close() it.

    Leaving without an exception stops every process that lives with SIGTERM and asserts that it
    exits with status 0 and has logged no error: what was granted was what was planned, in every
    request. Leaving with one kills them. A process that a test killed on purpose and did not start
    again is left alone. `dial_host`: how the router names the workers' machine.
    """

    def __init__(self, model, folder, *, prefill=1, decode=1, transport="tcp", kv="anchorkv",
                 ratio=20, kv_memory="256MiB", threads=1, router_flags=(), prefill_flags=(),
                 decode_flags=(), dial_host="127.0.0.1", environment=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.model = pathlib.Path(model)
        self.environment = {**os.environ, **(environment or {})}
        common = ["--model", str(model), "--kv", kv, "--ratio", str(ratio)]
        worker = [*common, "--transport", transport, "--threads", str(threads)]
        ports = iter(free_ports(2 + 2 * prefill + 3 * decode))

        def address():
            return f"127.0.0.1:{next(ports)}"

        def dialled(controls):
            return ",".join(f"{dial_host}:{control.split(':')[1]}" for control in controls)

        decode_controls, self.decodes = [], []
        for index in range(decode):
            control, data = address(), address()
            decode_controls.append(control)
            self.decodes.append(self._process(
                f"decode-{index}", address(), ["--control", control, "--data", data,
                                               "--kv-memory", kv_memory, *worker, *decode_flags]))
        prefill_controls, self.prefills = [], []
        for index in range(prefill):
            control = address()
            prefill_controls.append(control)
            self.prefills.append(self._process(
                f"prefill-{index}", address(), ["--control", control, *worker, *prefill_flags]))
        self.address = address()
        self.url = f"http://{self.address}"
        self.router = self._process(
            "router", address(), ["--listen", self.address, *common,
                                  "--prefill", dialled(prefill_controls),
                                  "--decode", dialled(decode_controls), *router_flags])

    def _process(self, name, admin, flags):
        program = BUILD_DIR / "bin" / f"anchorage-{name.split('-')[0]}"
        assert program.exists(), f"{program} is not built; see scripts/build.sh"
        return Process(name, [str(program), "--admin", admin, *flags], admin,
                       self.folder / f"{name}.log", self.environment)

    @property
    def processes(self):
        return [self.router, *self.prefills, *self.decodes]

    def start(self, seconds=60):
        for process in reversed(self.processes):
            process.start()
        self.wait_ready(seconds)
        return self

    def wait_ready(self, seconds=60):
        """Until the router answers /ready with 200; at once an error when a process has died."""
        def ready():
            for process in self.processes:
                assert process.alive(), f"{process.name} died\n{process.log_tail()}"
            return http_get(f"{self.url}/ready")[0] == 200

        try:
            wait_until(ready, seconds, "the service is ready")
        except (AssertionError, TimeoutError) as error:
            self.kill()
            raise AssertionError(f"{error}\n{self.log_tails()}") from error

    def client(self, **options):
        """The official client, without retries, so that a test sees each answer."""
        options = {"base_url": f"{self.url}/v1", "api_key": TOKEN_OF_A_KEYLESS_SERVICE,
                   "max_retries": 0, "timeout": 120, **options}
        return openai.OpenAI(**options)

    @property
    def model_name(self):
        return self.client().models.list().data[0].id

    def log_tails(self):
        return "\n".join(process.log_tail() for process in self.processes)

    def kill(self):
        for process in self.processes:
            if process.alive():
                process.kill()

    def close(self):
        """Stops everything in the order of a rollout: front door first. See the class."""
        try:
            for process in self.processes:
                if process.popen is not None and process.popen.returncode != -signal.SIGKILL:
                    process.terminate()
                assert not process.errors(), "\n".join(process.errors())
        finally:
            self.kill()

    def __enter__(self):
        return self.start()

    def __exit__(self, error_type, error, traceback):
        if error_type is None:
            self.close()
        else:
            print(self.log_tails())  # pytest shows it with the failed test
            self.kill()
