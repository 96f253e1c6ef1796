"""The official OpenAI client against a running service: what a user of the API sees."""

import asyncio
import concurrent.futures
import json
import time
import urllib.error
import urllib.request

import openai
import pytest

from cluster import wait_until
from load import complete, run_all

HI = [{"role": "user", "content": "Hello, who are you?"}]


@pytest.fixture(scope="module")
def service(shared_cluster):
    return shared_cluster


@pytest.fixture(scope="module")
def client(service):
    return service.client()


@pytest.fixture(scope="module")
def model(service):
    return service.model_name


def ask(client, model, **options):
    return client.chat.completions.create(
        model=model, messages=HI, **{"temperature": 0, "max_tokens": 12, **options})


def ignoring_eos(**more):
    return {"extra_body": {"ignore_eos": True, **more}}


def wait_until_free(service):
    """No request runs and no decode memory is held any more."""
    def is_free():
        return all(
            decode.metrics().value("anchorage_decode_memory_used_bytes") == 0
            and decode.metrics().value("anchorage_decode_memory_reserved_bytes") == 0
            for decode in service.decodes
        ) and service.router.metrics().value("anchorage_requests_in_flight") == 0

    wait_until(is_free, 10, "all memory is free")


def post(service, body, path="/v1/chat/completions", headers=None):
    """(status, headers, parsed body) of a raw POST."""
    request = urllib.request.Request(
        service.url + path, data=body, method="POST",
        headers={"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.loads(error.read())


# --- Models -----------------------------------------------------------------------------------------


def test_lists_and_retrieves_models(client, model):
    models = client.models.list().data
    assert [one.id for one in models] == [model]
    assert client.models.retrieve(model).id == model
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("another")
    assert caught.value.code == "model_not_found"


# --- Answers ----------------------------------------------------------------------------------------


def test_chat_answers_with_usage(client, model):
    answer = ask(client, model, max_tokens=8, **ignoring_eos())
    assert answer.object == "chat.completion"
    assert answer.model == model
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 8
    assert answer.usage.prompt_tokens > 5
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8


def test_greedy_answers_are_the_same_and_streams_say_the_same(client, model):
    first = ask(client, model)
    second = ask(client, model)
    assert first.choices[0].message.content == second.choices[0].message.content
    chunks = list(ask(client, model, stream=True))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert streamed == first.choices[0].message.content


def test_stream_has_the_shape_that_clients_expect(client, model):
    chunks = list(ask(client, model, max_tokens=6, stream=True,
                      stream_options={"include_usage": True}, **ignoring_eos()))
    assert len({chunk.id for chunk in chunks}) == 1
    assert len({chunk.created for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[0].choices[0].delta.content == ""
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:-1])
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks[:-2])
    assert chunks[-2].choices[0].finish_reason == "length"
    assert not chunks[-2].choices[0].delta.content
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 6


def test_no_usage_chunk_unless_asked_for(client, model):
    chunks = list(ask(client, model, stream=True))
    assert all(chunk.usage is None for chunk in chunks)
    assert all(len(chunk.choices) == 1 for chunk in chunks)


def test_text_completions(client, model):
    answer = client.completions.create(model=model, prompt="The river rises", max_tokens=5,
                                       temperature=0, **ignoring_eos())
    assert answer.object == "text_completion"
    assert answer.usage.completion_tokens == 5
    chunks = list(client.completions.create(model=model, prompt="The river rises", max_tokens=5,
                                            temperature=0, stream=True, **ignoring_eos()))
    assert "".join(chunk.choices[0].text for chunk in chunks) == answer.choices[0].text
    assert chunks[-1].choices[0].finish_reason == "length"
    by_ids = client.completions.create(model=model, prompt=[260, 261, 262], max_tokens=2,
                                       temperature=0, **ignoring_eos())
    assert by_ids.usage.prompt_tokens == 3


def test_token_ids_come_where_they_are_asked_for(client, model, service):
    """Shapes of vLLM's return_token_ids: of the prompt once, of the answer in every choice."""
    prompt = [260, 261, 262]
    options = {"temperature": 0, "max_tokens": 24, **ignoring_eos(return_token_ids=True)}
    whole = client.completions.create(model=model, prompt=prompt, **options).choices[0]
    assert whole.prompt_token_ids == prompt
    assert len(whole.token_ids) == 24
    _, _, back = post(service, json.dumps({"tokens": whole.token_ids}).encode(), "/detokenize")
    assert back["prompt"] == whole.text

    chunks = list(client.completions.create(model=model, prompt=prompt, stream=True, **options))
    assert chunks[0].choices[0].prompt_token_ids == prompt
    assert [id for chunk in chunks for id in chunk.choices[0].token_ids] == whole.token_ids

    chat = ask(client, model, **options)
    chunks = list(ask(client, model, stream=True, **options))
    assert len(chat.prompt_token_ids) == chat.usage.prompt_tokens
    assert chunks[0].prompt_token_ids == chat.prompt_token_ids
    assert all("prompt_token_ids" not in chunk.model_dump() for chunk in chunks[1:])
    assert [id for chunk in chunks for id in chunk.choices[0].token_ids] == chat.choices[0].token_ids
    assert "token_ids" not in ask(client, model).choices[0].model_dump()


@pytest.mark.parametrize("stream", [False, True])
def test_token_ids_end_with_the_one_that_completes_a_stop_string(service, stream):
    payload = {"prompt": [260, 261, 262], "temperature": 0, "max_tokens": 24, "ignore_eos": True,
               "return_token_ids": True}
    usage = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    (whole,) = asyncio.run(run_all([complete(service.address, payload)], 1))
    stop = whole.text[len(whole.text) // 2:][:3]
    (cut,) = asyncio.run(run_all(
        [complete(service.address, {**payload, **usage, "stop": stop})], 1))
    count = (cut.events[-1] if stream else cut.body)["usage"]["completion_tokens"]
    assert cut.text == whole.text[:whole.text.index(stop)]
    assert 0 < count < 24
    assert cut.token_ids == whole.token_ids[:count]


def test_one_token_and_the_newer_name_of_max_tokens(client, model):
    assert ask(client, model, max_tokens=1, **ignoring_eos()).usage.completion_tokens == 1
    answer = client.chat.completions.create(model=model, messages=HI, max_completion_tokens=3,
                                            **ignoring_eos())
    assert answer.usage.completion_tokens == 3


def test_seeded_sampling_repeats(client, model):
    options = {"temperature": 1.0, "seed": 7, "max_tokens": 16, **ignoring_eos()}
    first = ask(client, model, **options).choices[0].message.content
    assert ask(client, model, **options).choices[0].message.content == first
    others = {ask(client, model, **{**options, "seed": seed}).choices[0].message.content
              for seed in (8, 9, 10)}
    assert others != {first}


def test_stop_strings_end_the_text_and_the_count(client, model, service):
    whole = ask(client, model, max_tokens=24, **ignoring_eos())
    text = whole.choices[0].message.content
    middle = len(text) // 2
    stop = text[middle:middle + 3]
    expected = text[:text.index(stop)]
    for streamed in (False, True):
        if streamed:
            chunks = list(ask(client, model, max_tokens=24, stop=[stop], stream=True,
                              stream_options={"include_usage": True}, **ignoring_eos()))
            got = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
            reason, usage = chunks[-2].choices[0].finish_reason, chunks[-1].usage
        else:
            answer = ask(client, model, max_tokens=24, stop=stop, **ignoring_eos())
            got, reason, usage = (answer.choices[0].message.content,
                                  answer.choices[0].finish_reason, answer.usage)
        assert got == expected
        assert reason == "stop"
        assert usage.completion_tokens < 24
    wait_until_free(service)


def test_null_and_empty_options_are_the_same_as_absent(client, model):
    assert ask(client, model, stop=None, n=1, logprobs=None, tools=None, seed=None, user="u",
               extra_body={"stop": [], "logit_bias": None}).choices


def test_request_ids_come_back(client, model):
    raw = client.chat.completions.with_raw_response.create(
        model=model, messages=HI, max_tokens=2, extra_headers={"X-Request-Id": "trace-42"})
    assert raw.headers["x-request-id"] == "trace-42"
    assert raw.parse()._request_id == "trace-42"


def test_the_trace_id_of_a_request_is_in_the_log(client, model, service):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    options = {"max_tokens": 3, "extra_headers": {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"},
               **ignoring_eos()}
    assert ask(client, model, **options).usage.completion_tokens == 3
    assert trace in service.router.log()


def test_many_at_once(service, model):
    """More requests than fit beside each other, each with the answer it gets alone."""
    prompts = [f"Tell me about the number {number}." for number in range(16)]

    def answer(prompt):
        return service.client().chat.completions.create(
            model=model, messages=[{"role": "user", "content": prompt}], temperature=0,
            max_tokens=16).choices[0].message.content

    alone = [answer(prompt) for prompt in prompts]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(answer, prompts)) == alone
    wait_until_free(service)


# --- Leaving ----------------------------------------------------------------------------------------


def test_closing_a_stream_frees_everything(client, model, service):
    before = service.router.metrics().value("anchorage_client_disconnects_total")
    stream = ask(client, model, max_tokens=4000, stream=True, **ignoring_eos())
    for _ in range(3):
        next(stream)
    stream.close()
    wait_until_free(service)
    after = service.router.metrics().value("anchorage_client_disconnects_total")
    assert after == before + 1


def test_a_client_timeout_frees_everything(client, model, service):
    with pytest.raises(openai.APITimeoutError):
        ask(client.with_options(timeout=0.5), model, max_tokens=4000, **ignoring_eos())
    wait_until_free(service)


# --- Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, param", [
    ({"temperature": -1}, "temperature"),
    ({"temperature": 1e9}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"n": 2}, "n"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": "many"}, "max_tokens"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"logprobs": True}, "logprobs"),
    ({"logit_bias": {"999999": 1}}, "logit_bias"),
    ({"stop": 5}, "stop"),
    ({"seed": 1.5}, "seed"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"extra_body": {"stop_token_ids": [999999]}}, "stop_token_ids"),
])
def test_bad_options_are_400_and_name_the_field(client, model, options, param):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, model, **options)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize("messages, param", [
    ([], "messages"),
    ([{"role": "wizard", "content": "x"}], "messages[0].role"),
    ([{"role": "user"}], "messages[0].content"),
    ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
     "messages[0].content[0].type"),
])
def test_bad_messages_are_400(client, model, messages, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=model, messages=messages)
    assert caught.value.param == param


def test_an_unknown_model_is_404(client):
    with pytest.raises(openai.NotFoundError) as caught:
        ask(client, "another")
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_over_the_context_is_400_with_the_numbers(client, model, stream):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "a b c " * 8192}], stream=stream)
    assert caught.value.code == "context_length_exceeded"
    assert "maximum context length is 8192 tokens" in caught.value.message
    assert caught.value.body["n_ctx"] == 8192
    assert caught.value.body["n_prompt_tokens"] > 8192


def test_max_tokens_over_the_context_is_clamped(client, model):
    stream = ask(client, model, max_tokens=10**9, stream=True)
    next(stream)
    stream.close()


def test_unknown_routes_and_methods_are_json(client, service):
    with pytest.raises(openai.NotFoundError) as caught:
        client.embeddings.create(model="x", input="y")
    assert caught.value.type == "invalid_request_error"
    status, headers, body = post(service, b"{}", "/v1/models")
    assert status == 405 and body["error"]["type"] == "invalid_request_error"
    assert "GET" in headers["Allow"]


@pytest.mark.parametrize("body, status", [
    (b"{", 400), (b"[]", 400), (b"\xff", 400), (b'{"messages":[],"messages":[]}', 400),
    (b'{"model":"' + b"m" * (1 << 20) + b'","messages":[{"role":"user","content":"x"}]}', 404),
    (b'{"a":1e400}', 400), (b"[" * 100_000, 400), (b" " * (5 << 20), 413)])
def test_bad_bodies_have_whole_errors(service, body, status):
    got, _, parsed = post(service, body)
    assert got == status
    assert set(parsed["error"]) >= {"message", "type", "param", "code"}


def test_compressed_bodies_are_415(service):
    assert post(service, b"{}", headers={"Content-Encoding": "gzip"})[0] == 415


def test_what_can_never_fit_is_400_at_once(start_cluster):
    service = start_cluster(kv_memory="1MiB")
    began = time.monotonic()
    with pytest.raises(openai.BadRequestError) as caught:
        service.client().completions.create(model=service.model_name, prompt=[260] * 6000,
                                            max_tokens=2000)
    assert time.monotonic() - began < 5
    assert caught.value.code == "request_never_fits"


def test_a_full_queue_is_429_and_waiting_too_long_is_503(start_cluster):
    service = start_cluster(kv_memory="20MiB",
                            router_flags=["--queue-size", "1", "--queue-timeout", "1s"])
    client, model = service.client(), service.model_name

    def long_stream():
        return client.completions.create(model=model, prompt=[260] * 100, max_tokens=8000,
                                         stream=True, **ignoring_eos())

    def refusal():
        with pytest.raises(openai.APIStatusError) as caught:
            next(long_stream())
        return caught.value

    running = long_stream()  # takes most of the memory
    next(running)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(refusal)
        wait_until(lambda: service.router.metrics().value("anchorage_queue_depth") == 1, 5,
                   "a request waits")
        turned_away = refusal()
        assert turned_away.status_code == 429
        assert turned_away.code == "rate_limit_exceeded"
        assert turned_away.response.headers["Retry-After"]
        waited_out = waiting.result()
    assert waited_out.status_code == 503
    assert waited_out.response.headers["Retry-After"]
    running.close()
    wait_until_free(service)


def test_a_key_is_asked_for_where_one_is_set(start_cluster, tmp_path):
    key_file = tmp_path / "key"
    key_file.write_text("sesame\n")
    service = start_cluster(router_flags=["--api-key-file", str(key_file)])
    with pytest.raises(openai.AuthenticationError) as caught:
        service.client(api_key="wrong").models.list()
    assert caught.value.code == "invalid_api_key"
    assert service.client(api_key="sesame").models.list().data


def test_a_lost_decode_node_is_an_error_and_never_a_clean_end(start_cluster):
    service = start_cluster()
    client, model = service.client(), service.model_name
    stream = ask(client, model, max_tokens=4000, stream=True, **ignoring_eos())
    next(stream)
    service.decodes[0].kill()
    with pytest.raises(openai.APIError):
        list(stream)
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client, model)
    assert caught.value.status_code == 503
    service.decodes[0].start()
    service.wait_ready()
    assert ask(client, model).choices
