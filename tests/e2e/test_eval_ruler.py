"""`anchorage eval ruler`: in one process, against a service, and against servers that misbehave."""

import contextlib
import http.server
import json
import subprocess
import threading

from cluster import BUILD_DIR

TASKS = "niah_single_1,niah_multikey_1,vt"


def ruler(model, out, *flags, length=2000):
    """Runs the command; standard output and error as text."""
    command = [BUILD_DIR / "bin" / "anchorage", "eval", "ruler", "--model", model, "--out", out,
               "--tasks", TASKS, "--lengths", str(length), "--samples", "1", "--threads", "2", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def results_in(out):
    """{(sample, setting): answer}"""
    lines = (out / "results.jsonl").read_text().splitlines()
    return {(line["id"], line["setting"]): line["answer"] for line in map(json.loads, lines)}


@contextlib.contextmanager
def server(answer):
    """An endpoint whose answers to POST are `answer(body)`: (status, text). Yields its address."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, text = answer(self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}/v1"
        listening.shutdown()


def test_a_service_answers_as_the_process_does(start_cluster, tiny_model, tmp_path):
    out = tmp_path / "run"
    here = ruler(tiny_model, out, "--ratios", "20")
    assert here.returncode == 0, here.stderr
    cluster = start_cluster()
    there = ruler(tiny_model, out, "--url", f"{cluster.url}/v1", "--model-name", cluster.model_name,
                  "--label", "service")
    assert there.returncode == 0, there.stderr
    results = results_in(out)
    samples = {sample for sample, _ in results}
    assert len(results) == 3 * len(samples) == 9
    for sample in samples:
        assert results[sample, "service"] == results[sample, "compact 20x"], sample
    assert any(results[sample, "full"] != results[sample, "service"] for sample in samples)

    report = json.loads((out / "report.json").read_text())
    settings = {setting["setting"]: setting for setting in report["lengths"][0]["settings"]}
    assert set(settings) == {"full", "compact 20x", "service"}
    assert settings["full"]["ratio"] == 1 and settings["service"]["ratio"] is None
    assert (out / "tasks_2000.svg").read_text().startswith("<svg")
    assert "| service |" in there.stdout and "| compact 20x |" in there.stdout


def test_any_endpoint_is_asked_the_same_prompts(tiny_model, tmp_path):
    asked = []

    def answer(path, body):
        asked.append((path, body))
        return 200, json.dumps({"choices": [{"text": "made up"}], "usage": {"completion_tokens": 2}})

    with server(answer) as url:
        flags = ["--url", url, "--model-name", "peer", "--label", "peer"]
        assert ruler(tiny_model, tmp_path / "ids", *flags).returncode == 0
        again = ruler(tiny_model, tmp_path / "ids", *flags)
        assert again.returncode == 0 and len(asked) == 3, "all was answered already"
        assert ruler(tiny_model, tmp_path / "text", *flags, "--prompt-as", "text").returncode == 0
    assert len(asked) == 6
    for path, body in asked:
        assert path == "/v1/completions"
        assert body["model"] == "peer" and body["temperature"] == 0
        assert len(body["prompt"]) + body["max_tokens"] <= 2000 or isinstance(body["prompt"], str)
    assert asked[3][1]["prompt"].startswith("<|im_start|>system\n")


def test_an_error_is_shown_and_what_was_answered_is_kept(tiny_model, tmp_path):
    calls = []

    def answer(path, body):
        calls.append(body)
        if len(calls) == 2:
            return 500, '{"error": "the model has left the building"}'
        return 200, json.dumps({"choices": [{"text": "fine"}]})

    with server(answer) as url:
        flags = ["--url", url, "--model-name", "peer"]
        failed = ruler(tiny_model, tmp_path, *flags)
        assert failed.returncode != 0
        assert "status 500" in failed.stderr and "left the building" in failed.stderr
        assert "The 1 answers" in failed.stderr and "are kept" in failed.stderr
        assert ruler(tiny_model, tmp_path, *flags).returncode == 0
    assert len(calls) == 4, "one answer was kept, two were missing"


def test_a_full_endpoint_is_asked_again(tiny_model, tmp_path):
    calls = []

    def answer(path, body):
        calls.append(body)
        return (429, "busy") if len(calls) == 1 else (200, '{"choices": [{"text": "fine"}]}')

    with server(answer) as url:
        done = ruler(tiny_model, tmp_path, "--url", url, "--model-name", "peer")
    assert done.returncode == 0 and len(calls) == 4


def test_mistakes_are_told_in_words(tiny_model, tmp_path):
    def complaint(*flags, **options):
        result = ruler(tiny_model, tmp_path, *flags, **options)
        assert result.returncode != 0
        return result.stderr

    assert "'niah' is no task; there are: all, niah_single_1" in complaint("--tasks", "niah")
    assert "beyond the model's context of 8192" in complaint(length=9000)
    assert "needs a length of at least" in complaint(length=200)
    assert "--lengths: 'long'" in complaint(length="long")
    assert "--ratios: 0.5" in complaint("--ratios", "0.5")
    assert "not an http:// address" in complaint("--url", "https://host/v1", "--model-name", "x")
    assert "--model-name is missing" in complaint("--url", "http://127.0.0.1:1/v1")
    assert "cannot connect" in complaint("--url", "http://127.0.0.1:1/v1", "--model-name", "x")
    with server(lambda path, body: (200, "<html>")) as url:
        assert "not a completion: <html>" in complaint("--url", url, "--model-name", "x")
