"""A small asynchronous client for load and failure tests: it sees each byte and can leave at any."""

import asyncio
import dataclasses
import json


@dataclasses.dataclass
class Outcome:
    """How one request ended for the client. Exactly one of the terminal states below holds."""

    status: int = 0  # of the HTTP answer; 0: the connection was reset or refused before one
    events: list = dataclasses.field(default_factory=list)  # of a stream, decoded; without [DONE]
    body: dict = None  # of an answer that is no stream
    done: bool = False  # the stream ended with [DONE]
    cut: bool = False  # the connection ended before the answer was whole
    left: bool = False  # this client closed it on purpose

    @property
    def text(self):
        if self.body is not None:
            return self.body["choices"][0]["text"]
        return "".join(e["choices"][0]["text"] for e in self.events if e.get("choices"))

    @property
    def token_ids(self):
        """Of an answer to a request with return_token_ids."""
        if self.body is not None:
            return self.body["choices"][0]["token_ids"]
        return [id for e in self.events if e.get("choices") for id in e["choices"][0]["token_ids"]]

    @property
    def finish_reason(self):
        if self.body is not None and "choices" in self.body:
            return self.body["choices"][0]["finish_reason"]
        reasons = [c["finish_reason"] for e in self.events for c in e.get("choices", [])
                   if c["finish_reason"]]
        assert len(reasons) <= 1, f"more than one finish_reason: {reasons}"
        return reasons[0] if reasons else None

    @property
    def error(self):
        if self.body is not None:
            return self.body.get("error")
        return next((e["error"] for e in self.events if "error" in e), None)

    def terminal_state(self):
        """finished, failed, left or cut; asserts that it is exactly one and well formed."""
        if self.left:
            return "left"
        states = []
        if self.finish_reason is not None:
            states.append("finished")
            assert self.status == 200 and (self.body is not None or self.done), self
        if self.error is not None:
            states.append("failed")
            assert not self.done, f"[DONE] after an error: {self}"
            assert set(self.error) >= {"message", "type", "param", "code"}, self
        if self.cut or self.status == 0:
            states.append("cut")
        assert len(states) == 1, f"not exactly one terminal state {states}: {self}"
        return states[0]


async def complete(address, payload, *, leave_after=None, timeout=120):
    """One POST to /v1/completions. `leave_after`: closes the connection after so many bytes of the
    answer (0: as soon as the request is sent). `payload`: a dict, or bytes to be sent as they are."""
    outcome = Outcome()
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    host, port = address.split(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return outcome
    try:
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
                     b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await writer.drain()
        if leave_after is not None:
            if leave_after:
                await asyncio.wait_for(reader.read(leave_after), timeout)
            outcome.left = True
            return outcome
        await asyncio.wait_for(_read_answer(reader, outcome), timeout)
    except (ConnectionError, asyncio.IncompleteReadError):
        outcome.cut = True
    finally:
        writer.transport.abort()
    return outcome


async def _read_answer(reader, outcome):
    head = await reader.readuntil(b"\r\n\r\n")
    outcome.status = int(head.split(b" ", 2)[1])
    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    if headers.get(b"transfer-encoding") == b"chunked":
        content, whole = await _read_chunks(reader)
    else:
        content, whole = await reader.readexactly(int(headers[b"content-length"])), True
    outcome.cut = not whole
    if not headers[b"content-type"].startswith(b"text/event-stream"):
        outcome.body = json.loads(content)
        return
    for event in content.split(b"\n\n"):
        if not event.startswith(b"data: "):
            assert event == b"" or event.startswith(b":") or not whole, event
        elif event == b"data: [DONE]":
            outcome.done = True
        else:
            assert not outcome.done, "an event after [DONE]"
            outcome.events.append(json.loads(event[len(b"data: "):]))
    # An error event is an end of its own, however the connection closes after it.
    outcome.cut = outcome.cut and outcome.error is None


async def _read_chunks(reader):
    content = b""
    try:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            content += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return content, True
    except (ConnectionError, asyncio.IncompleteReadError):
        return content, False


async def run_all(jobs, concurrency):
    """Awaits the coroutines `jobs()` yields, at most so many at once; their results in order."""
    gate = asyncio.Semaphore(concurrency)

    async def gated(job):
        async with gate:
            return await job

    return await asyncio.gather(*(gated(job) for job in jobs))
