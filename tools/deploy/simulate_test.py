"""The simulation against queueing theory: M/M/c with one queue, and one server that shares its time."""

import math
import statistics

from queueing import Machine, Request, poisson, simulate


def erlang_c(servers, load):
    """Probability of waiting in M/M/c with `load` = arrival rate / service rate."""
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)


def close(found, expected, share, what):
    assert abs(found - expected) <= share * expected, f"{what}: {found:.4f} instead of {expected:.4f}"


def m_m_c(servers, utilization):
    """Servers that run one request at a time; service times are exponential."""
    machine = Machine(prompt=1.0, decode=((1, 100.0),), max_running=1)
    seconds = 40_000 / (utilization * servers)
    ratios = []
    for seed in range(8):
        requests = poisson(utilization * servers, seconds, 0, 100, seed)
        load = simulate(machine, servers, requests)
        # Theory for the rates that were drawn: the wait changes much with them.
        rate = len(requests) / seconds
        service = 100 / statistics.fmean(request.completion for request in requests)
        expected = erlang_c(servers, rate / service) / (servers * service - rate)
        waited = statistics.fmean(request.first_token - request.arrival for request in requests[4000:])
        ratios.append(waited / expected)
        close(load, rate / service / servers, 0.01, f"mean load, {servers} servers at {utilization}")
    close(statistics.fmean(ratios), 1.0, 0.05, f"mean wait over theory, {servers} servers at {utilization}")


def processor_sharing(utilization):
    """One server that divides a fixed rate among all requests: the mean time is that of M/M/1."""
    machine = Machine(prompt=1.0, decode=((1, 100.0), (2, 100.0)), max_running=10**9)
    requests = poisson(utilization, 60_000 / utilization, 0, 100, seed=3)
    simulate(machine, 1, requests)
    times = statistics.fmean(request.end - request.arrival for request in requests[6000:])
    close(times, 1 / (1 - utilization), 0.08, f"mean time with sharing at {utilization}")


def one_request():
    """A request alone takes as long as its tokens at the measured speeds."""
    machine = Machine(prompt=1000, decode=((1, 50), (16, 400)))
    request = Request(arrival=3.0, prompt=500, completion=100)
    simulate(machine, 4, [request])
    close(request.first_token, 3.5, 1e-9, "first token")
    close(request.end, 5.5, 1e-9, "end")
    assert machine.decode_rate(1) == 50 and machine.decode_rate(16) == machine.decode_rate(99) == 400
    close(machine.decode_rate(8.5), 225, 1e-9, "interpolation")


one_request()
for servers, utilization in [(1, 0.5), (1, 0.8), (4, 0.7), (16, 0.7)]:
    m_m_c(servers, utilization)
for utilization in (0.5, 0.8):
    processor_sharing(utilization)
print("simulation: agrees with M/M/1, M/M/4, M/M/16 and processor sharing")
