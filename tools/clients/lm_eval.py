"""lm-eval over HTTP: the likelihoods it gets are those of `wf eval`, and not those of chance."""

import json
import pathlib
import subprocess
import sys
import tempfile

from server import Server

HERE = pathlib.Path(__file__).parent / "lm_eval"


def ids(url, text):
    import urllib.request

    body = json.dumps({"prompt": text, "add_special_tokens": False}).encode()
    request = urllib.request.Request(url + "/tokenize", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["tokens"]


def mean_nll(binary, tokens):
    command = [binary, "eval", "logits", "--json", "--ids", ",".join(map(str, tokens))]
    return json.loads(subprocess.check_output(command))["mean_nll"]


def main(binary):
    stories = HERE / "stories.jsonl"
    with tempfile.TemporaryDirectory() as folder, Server(binary) as server:
        task = (HERE / "wf_stories.yaml").read_text().replace("STORIES", str(stories.resolve()))
        (pathlib.Path(folder) / "wf_stories.yaml").write_text(task)
        command = [
            sys.executable, "-m", "lm_eval", "run", "--model", "local-completions", "--model_args",
            f"model=wf-demo,base_url={server.base_url}/completions,num_concurrent=4,"
            "tokenizer_backend=remote,tokenized_requests=True",
            "--tasks", "wf_stories", "--include_path", folder, "--output_path", folder,
            "--log_samples",
        ]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert ended.returncode == 0, ended.stdout[-6000:]
        [samples] = pathlib.Path(folder).rglob("samples_*.jsonl")
        samples = [json.loads(line) for line in samples.read_text().splitlines()]
        right = sum(sample["acc"] for sample in samples)
        assert right >= 7, f"{right} of {len(samples)} right: near chance"
        for sample in samples[:3]:
            start, goes_on = sample["doc"]["start"], sample["doc"]["right"]
            context, whole = ids(server.url, start), ids(server.url, start + goes_on)
            ours = -mean_nll(binary, whole) * (len(whole) - 1)
            ours += mean_nll(binary, context) * (len(context) - 1)
            theirs = float(sample["resps"][0][0][0])
            assert abs(ours - theirs) < 1e-3, (start, ours, theirs)
    print(f"lm-eval: {right:.0f} of {len(samples)} right, likelihoods as `wf eval` has them: ok")


main(sys.argv[1])
