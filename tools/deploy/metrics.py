"""Every metric that dashboards, the autoscaler and vLLM's tools name is one that a server has."""

import json
import pathlib
import re
import sys
import urllib.request

sys.path.append(str(pathlib.Path(__file__).parent.parent / "clients"))
from server import Server

DEPLOY = pathlib.Path(__file__).parent.parent.parent / "deploy"
NAME = re.compile(r"\bwf:[a-z0-9_]+")
# What the Gateway API inference extension and vLLM's own dashboard read.
VLLM = """num_requests_running num_requests_waiting kv_cache_usage_perc prompt_tokens_total generation_tokens_total
    request_success_total time_to_first_token_seconds_bucket inter_token_latency_seconds_bucket
    e2e_request_latency_seconds_bucket request_queue_time_seconds_sum request_prefill_time_seconds_sum
    request_decode_time_seconds_sum request_prompt_tokens_bucket request_generation_tokens_bucket
    prefix_cache_queries_total prefix_cache_hits_total num_preemptions_total""".split()


def served(binary, *flags):
    """Names and labels of all samples, after a request with a key."""
    with Server(binary, *flags, env={"WF_API_KEY": "secret"}) as server:
        headers = {"content-type": "application/json", "authorization": "Bearer secret"}
        body = json.dumps({"prompt": "Once upon", "max_tokens": 4}).encode()
        urllib.request.urlopen(urllib.request.Request(server.base_url + "/completions", body, headers)).read()
        text = urllib.request.urlopen(urllib.request.Request(server.url + "/metrics", headers=headers)).read().decode()
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    labels = {}
    for line in samples:
        name, rest = re.match(r"([a-z0-9_:]+)(.*)", line).groups()
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', rest))
    return labels


def main(binary):
    labels = served(binary)
    used = {}
    for path in [DEPLOY / "grafana/wf.json", *DEPLOY.glob("kubernetes/*.yaml")]:
        for name in NAME.findall(path.read_text()):
            used.setdefault(name, path.name)
    assert len(used) > 15, used
    for name, path in used.items():
        assert name in labels, f"{path}: a server has no metric {name}"
    # Labels that queries group by.
    for panel in json.loads((DEPLOY / "grafana/wf.json").read_text())["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"by \((\w+)\)", target["expr"]):
                found = set().union(*(labels[name] for name in NAME.findall(target["expr"])))
                assert label in found, f"{panel['title']}: no label {label}"
    renamed = served(binary, "--metrics-prefix", "vllm")
    missing = [name for name in VLLM if "vllm:" + name not in renamed]
    assert not missing and not any(name.startswith("wf:") for name in renamed), missing
    print(f"metrics: {len(used)} names of dashboards and {len(VLLM)} of vLLM are served")


main(sys.argv[1])
