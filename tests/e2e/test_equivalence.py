"""Three processes give exactly what one process gives, alone and in company."""

import asyncio
import json
import random
import subprocess

import pytest

from cluster import BUILD_DIR, ROOT
from load import complete, run_all

MAX_TOKENS = 24
REAL_MODEL = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def generate(model, prompt, schedule="layer-major", kv="none"):
    """What `anchorage generate` says, as its JSON."""
    command = [BUILD_DIR / "bin" / "anchorage", "generate", "--model", model, "--kv", kv, "--json",
               "--schedule", schedule, "--max-tokens", str(MAX_TOKENS), "--threads", "2"]
    result = subprocess.run(command, input=prompt.encode(), capture_output=True, check=True)
    return json.loads(result.stdout)


def serve(address, prompts, concurrency):
    """The service's answers to `prompts`, so many at once."""
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    jobs = (complete(address, {"prompt": prompt, "max_tokens": MAX_TOKENS, "temperature": 0,
                               "return_token_ids": True,
                               **(stream if index % 2 == 0 else {})})
            for index, prompt in enumerate(prompts))
    outcomes = asyncio.run(run_all(jobs, concurrency))
    assert [outcome.terminal_state() for outcome in outcomes] == ["finished"] * len(prompts)
    return outcomes


def shown(outcome):
    """Text, finish reason and tokens of an answer of the service, and their number by its usage."""
    usage = outcome.body["usage"] if outcome.body else outcome.events[-1]["usage"]
    return outcome.text, outcome.finish_reason, outcome.token_ids, usage["completion_tokens"]


def expected_of(one):
    return one["text"], one["finish_reason"], one["token_ids"], len(one["token_ids"])


def random_prompts(count, seed):
    rng = random.Random(seed)
    return ["".join(chr(rng.randrange(32, 127)) for _ in range(rng.choice([1, 30, 70, 300, 900])))
            for _ in range(count)]


def real_prompts():
    return [
        "The capital of France is",
        "def fibonacci(n):\n    \"\"\"The n-th Fibonacci number.\"\"\"\n",
        "Water boils at a lower temperature on a mountain because",
        "A list of five fruits:\n1.",
        "The old lighthouse keeper wrote a letter every week. " * 60 + "This week he wrote:",
    ]


def check(cluster, model, prompts):
    expected = [generate(model, prompt) for prompt in prompts]
    for answers in (serve(cluster.address, prompts, 1), serve(cluster.address, prompts, 16)):
        assert [shown(answer) for answer in answers] == [expected_of(one) for one in expected]
    return expected


def test_tiny_models(start_cluster, make_tiny_model):
    for head_dim in ("64", "128"):
        model = make_tiny_model("--head-dim", head_dim)
        prompts = random_prompts(25, seed=int(head_dim))
        expected = check(start_cluster(model=model, kv="none"), model, prompts)
        assert len({tuple(one["token_ids"]) for one in expected}) > 10, "the prompts matter"
        for prompt, one in zip(prompts[:5], expected):
            for schedule in ("one-shot", "chunk-major"):
                assert generate(model, prompt, schedule)["token_ids"] == one["token_ids"]


def test_real_model(start_cluster):
    prompts = real_prompts()
    expected = check(start_cluster(model=REAL_MODEL, kv="none"), REAL_MODEL, prompts)
    assert "Paris" in expected[0]["text"]
    for prompt, one in zip(prompts, expected):
        for schedule in ("one-shot", "chunk-major"):
            assert generate(REAL_MODEL, prompt, schedule)["token_ids"] == one["token_ids"]


@pytest.mark.parametrize("transport", ["tcp", "ucx"])
def test_compressed_cache_gives_the_same_tokens_as_in_one_process(start_cluster, tiny_model,
                                                                  transport):
    cluster = start_cluster(transport=transport)
    prompts = random_prompts(10, seed=3)
    expected = [expected_of(generate(tiny_model, prompt, kv="anchorkv")) for prompt in prompts]
    assert [shown(answer) for answer in serve(cluster.address, prompts, 4)] == expected


@pytest.mark.parametrize("kv", ["snapkv", "recent"])
def test_what_an_evicting_cache_gives_is_the_same_in_one_process(start_cluster, tiny_model, kv):
    cluster = start_cluster(kv=kv)
    prompts = random_prompts(6, seed=5) + ["long " * 180]
    expected = [expected_of(generate(tiny_model, prompt, kv=kv)) for prompt in prompts]
    assert [shown(answer) for answer in serve(cluster.address, prompts, 4)] == expected
