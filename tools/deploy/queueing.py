"""Servers that share steps between requests, as a discrete-event simulation."""

import bisect
import collections
import dataclasses
import heapq
import math
import random
import statistics


@dataclasses.dataclass(frozen=True)
class Machine:
    """Measured speeds of one server, in tokens a second."""

    prompt: float
    # Tokens of all sequences together, by the number of sequences.
    decode: tuple
    max_running: int = 32

    def decode_rate(self, sequences):
        """Tokens of all sequences together, interpolated between what was measured."""
        counts = [count for count, _ in self.decode]
        at = bisect.bisect_left(counts, sequences)
        if at == 0:
            return self.decode[0][1] * sequences / counts[0]
        if at == len(counts):
            return self.decode[-1][1]
        (low, low_rate), (high, high_rate) = self.decode[at - 1 : at + 1]
        return low_rate + (high_rate - low_rate) * (sequences - low) / (high - low)


# docs/benchmarks.md: the shape of BitNet b1.58 2B4T, `wf bench`.
MACHINES = {
    "xeon-16": Machine(prompt=2127, decode=((1, 138), (16, 1276), (32, 1456))),
    "epyc-2": Machine(prompt=186, decode=((1, 40.4), (4, 82.7), (16, 99.2))),
}


@dataclasses.dataclass
class Request:
    arrival: float
    prompt: float
    completion: float
    first_token: float = math.nan
    end: float = math.nan


class Server:
    """One server. While a prompt is computed, half of the time belongs to the sequences that decode."""

    def __init__(self, machine):
        self.machine = machine
        self.now = 0.0
        # Prompts in order, with the tokens that are left.
        self.prompts = collections.deque()
        # Tokens that every decoding sequence has had so far: a sequence ends when this reaches its number.
        self.tokens = 0.0
        self.decoding = []
        self.serial = 0
        # Integral of the number of requests over time.
        self.load = 0.0

    def __len__(self):
        return len(self.prompts) + len(self.decoding)

    def rates(self):
        """Prompt tokens a second, and tokens a second of each decoding sequence."""
        share = 0.5 if self.prompts and self.decoding else 1.0
        prompt = self.machine.prompt * share if self.prompts else 0.0
        count = len(self.decoding)
        return prompt, self.machine.decode_rate(count) / count * share if count else 0.0

    def next_event(self):
        prompt, decode = self.rates()
        times = [math.inf]
        if prompt:
            times.append(self.prompts[0][0] / prompt)
        if decode:
            times.append((self.decoding[0][0] - self.tokens) / decode)
        return self.now + max(0.0, min(times))

    def advance(self, now):
        """Computes until `now`, which is no later than the next event. Returns the requests that end then."""
        prompt, decode = self.rates()
        elapsed = now - self.now
        self.now = now
        self.load += elapsed * len(self)
        self.tokens += decode * elapsed
        if self.prompts:
            self.prompts[0][0] -= prompt * elapsed
            if self.prompts[0][0] <= 1e-9:
                self.start_decoding(self.prompts.popleft()[1])
        ended = []
        while self.decoding and self.decoding[0][0] - self.tokens <= 1e-9:
            request = heapq.heappop(self.decoding)[2]
            request.end = now
            ended.append(request)
        return ended

    def start_decoding(self, request):
        request.first_token = self.now
        self.serial += 1
        heapq.heappush(self.decoding, (self.tokens + request.completion, self.serial, request))

    def admit(self, request):
        if request.prompt > 0:
            self.prompts.append([request.prompt, request])
        else:
            self.start_decoding(request)


def simulate(machine, servers, requests):
    """Runs requests, in order of arrival, on servers with one queue. Returns the mean number of requests on a server.

    A request goes to the server that has the fewest; if all have `max_running`, it waits until one has a place.
    """
    fleet = [Server(machine) for _ in range(servers)]
    events = []  # (time, version, server)
    versions = [0] * servers
    waiting = collections.deque()
    arrivals = iter(requests)
    following = next(arrivals, None)
    end = 0.0

    def schedule(at):
        versions[at] += 1
        when = fleet[at].next_event()
        if when < math.inf:
            heapq.heappush(events, (when, versions[at], at))

    def admit(request, now):
        at = min(range(servers), key=lambda at: len(fleet[at]))
        if len(fleet[at]) >= machine.max_running:
            return False
        fleet[at].advance(now)
        fleet[at].admit(request)
        schedule(at)
        return True

    while following or events:
        while events and events[0][1] != versions[events[0][2]]:
            heapq.heappop(events)
        if following and (not events or following.arrival <= events[0][0]):
            if waiting or not admit(following, following.arrival):
                waiting.append(following)
            following = next(arrivals, None)
            continue
        if not events:
            continue
        now, _, at = heapq.heappop(events)
        end = max(end, now)
        fleet[at].advance(now)
        schedule(at)
        while waiting and admit(waiting[0], now):
            waiting.popleft()
    return sum(server.load for server in fleet) / (servers * end) if end else 0.0


def poisson(rate, seconds, prompt, completion, seed):
    """Requests of independent users, with exponential lengths of the given means."""
    chance = random.Random(seed)
    now, requests = 0.0, []
    while (now := now + chance.expovariate(rate)) < seconds:
        lengths = [chance.expovariate(1 / mean) if mean else 0.0 for mean in (prompt, completion)]
        requests.append(Request(now, *lengths))
    return requests


def percentile(values, share):
    """The value that this share of all is not above."""
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def report(requests, warm_up):
    """Figures of the requests that arrived after the warm-up."""
    done = [request for request in requests if request.arrival >= warm_up]
    first = [request.first_token - request.arrival for request in done]
    speeds = [r.completion / (r.end - r.first_token) for r in done if r.end > r.first_token]
    return {
        "requests": len(done),
        "first token, median": statistics.median(first),
        "first token, p95": percentile(first, 0.95),
        "first token, p99": percentile(first, 0.99),
        "tokens a second of a user, median": statistics.median(speeds),
        "tokens a second of a user, slowest 5 %": percentile(speeds, 0.05),
    }
