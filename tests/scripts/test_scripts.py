"""The scripts as a newcomer meets them: help, mistakes, a service started, found and stopped."""

import json
import os
import pathlib
import re
import socket
import subprocess
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
# In a user namespace that maps nobody, everyone is nobody; in a network namespace there is no
# network. Some containers allow neither.
NOBODY_OFFLINE = ["unshare", "--user", "--net"]
HAS_NAMESPACES = subprocess.run([*NOBODY_OFFLINE, "true"], capture_output=True).returncode == 0


@pytest.fixture
def run_dir(tmp_path):
    """A folder of its own for the service, so that no other one on this machine is touched."""
    folder = tmp_path / "run"
    yield folder
    run("serve.sh", "stop", run_dir=folder)


def run(script, *arguments, run_dir=None, path=None, prefix=()):
    """Runs a script; standard output and error together in `stdout`."""
    environment = dict(os.environ)
    if run_dir:
        environment["ANCHORAGE_RUN_DIR"] = str(run_dir)
    if path:
        environment["PATH"] = path
    return subprocess.run([*prefix, SCRIPTS / script, *map(str, arguments)], env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600)


def expect_error(result, sentence):
    assert result.returncode == 1, result.stdout
    assert re.search(sentence, result.stdout), result.stdout
    assert "==>" not in result.stdout, "a mistake is told before any work is done"


def free_port():
    """Below the ports that the system hands out by itself, with room above it."""
    for port in range(24000 + os.getpid() % 1000 * 8, 32000, 8):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no free port")


def commands_in(folder, *, without=(), faked=()):
    """A PATH of links to this machine's commands but `without`, and `faked` ones that only fail."""
    folder.mkdir()
    for directory in ("/bin", "/usr/bin", "/usr/sbin"):
        for command in pathlib.Path(directory).iterdir():
            link = folder / command.name
            if command.name not in (*without, *faked) and not link.is_symlink():
                link.symlink_to(command)
    for name in faked:
        (folder / name).write_text(f"#!/bin/bash\necho {name} was called\nexit 1\n")
        (folder / name).chmod(0o755)
    return str(folder)


# ---- Help and mistakes ----


@pytest.mark.parametrize("script", sorted(path.name for path in SCRIPTS.glob("*.sh")))
def test_every_script_explains_itself_and_does_nothing_else(script):
    for flag in ("--help", "-h"):
        result = run(script, flag)
        assert result.returncode == 0, result.stdout
        assert f"scripts/{script}" in result.stdout
        assert "==>" not in result.stdout and "set -euo" not in result.stdout


@pytest.mark.parametrize("script", ["serve.sh", "setup.sh", "test.sh", "fetch_model.sh"])
def test_an_unknown_argument_is_named(script):
    expect_error(run(script, "--nonsense"), f"unknown argument '--nonsense'; see {script} --help")


@pytest.mark.parametrize("arguments, sentence", [
    (["--port"], "--port wants a value"),
    (["--port", "http"], "--port wants a positive whole number, got 'http'"),
    (["--port", "65530"], "--port must be below 65000"),
    (["--prefill", "0"], "--prefill wants a positive whole number, got '0'"),
    (["--ratio", "twenty"], "--ratio wants a number, got 'twenty'"),
    (["--kv", "zip"], "--kv is one of: anchorkv none snapkv recent; got 'zip'"),
    (["--transport", "rdma"], "--transport is one of: ucx tcp; got 'rdma'"),
    (["--model", "/nowhere.gguf"], "there is no readable file '/nowhere.gguf'"),
    (["--model", "/tmp"], "there is no readable file '/tmp'"),
])
def test_serve_refuses_bad_flags_in_words(arguments, sentence, run_dir):
    expect_error(run("serve.sh", *arguments, run_dir=run_dir), sentence)


# ---- A service ----


def test_serve_starts_a_service_that_answers_and_stops(tiny_model, run_dir):
    port = free_port()
    flags = ["--model", tiny_model, "--model-name", "tiny", "--port", port, "--transport", "tcp",
             "--kv-memory", "64MiB", "--detach"]
    started = run("serve.sh", *flags, run_dir=run_dir)
    assert started.returncode == 0, started.stdout
    assert f"Ready: http://127.0.0.1:{port}" in started.stdout

    curl = re.search(r"^    (curl .*\n.*)$", started.stdout, re.MULTILINE).group(1)
    answer = subprocess.run(["bash", "-c", f"{curl} -s"], check=True, capture_output=True, text=True)
    assert json.loads(answer.stdout)["model"] == "tiny"

    status = run("serve.sh", "status", run_dir=run_dir)
    assert status.returncode == 0
    assert re.findall(r"^([\w-]+): process", status.stdout, re.MULTILINE) == [
        "router", "prefill-0", "decode-0"]
    assert f"http://127.0.0.1:{port}/ready: 200" in status.stdout

    again = run("serve.sh", *flags, run_dir=run_dir)
    expect_error(again, f"a service is running at http://127.0.0.1:{port}; first: .*serve.sh stop")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready") as ready:
        assert ready.status == 200  # the second try left it alone

    stopped = run("serve.sh", "stop", run_dir=run_dir)
    assert (stopped.returncode, stopped.stdout) == (0, "stopped\n")
    once_more = run("serve.sh", "stop", run_dir=run_dir)
    assert (once_more.returncode, once_more.stdout) == (0, "not running\n")
    assert run("serve.sh", "status", run_dir=run_dir).stdout == "not running\n"


def test_serve_says_which_port_is_taken(tiny_model, run_dir):
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        expect_error(run("serve.sh", "--model", tiny_model, "--port", port, run_dir=run_dir),
                     f"port {port} is taken; choose another with --port")


def test_serve_shows_why_a_process_died_and_leaves_none_behind(tmp_path, run_dir):
    model = tmp_path / "broken.gguf"
    model.write_bytes(b"GGUF" + bytes(100))
    result = run("serve.sh", "--model", model, "--port", free_port(), run_dir=run_dir)
    assert result.returncode == 1
    assert re.search(r"(router|prefill-0|decode-0) ended by itself", result.stdout), result.stdout
    assert "broken.gguf" in result.stdout and "the service did not start" in result.stdout
    assert run("serve.sh", "status", run_dir=run_dir).stdout == "not running\n"


# ---- Set-up ----


def test_setup_asks_for_nothing_where_everything_is_there(tmp_path):
    path = commands_in(tmp_path / "bin", faked=["apt-get", "sudo", "pip"])
    prefix = NOBODY_OFFLINE if HAS_NAMESPACES else []
    result = run("setup.sh", path=path, prefix=prefix)
    assert (result.returncode, result.stdout) == (0, "")
    result = run("fetch_model.sh", path=path, prefix=prefix)
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.skipif(not HAS_NAMESPACES, reason="user namespaces are not allowed here")
def test_setup_tells_a_user_without_rights_what_to_install(tmp_path):
    path = commands_in(tmp_path / "bin", without=["sudo"], faked=["apt-get", "dpkg-query"])
    result = run("setup.sh", path=path, prefix=NOBODY_OFFLINE)
    assert result.returncode == 1
    assert "As root, run:" in result.stdout
    assert re.search(r"apt-get install .*\bcmake\b.*\blibucx-dev\b", result.stdout)
    assert "apt-get was called" not in result.stdout
