"""Runs lm-eval over HTTP: its likelihoods and metrics equal those of `wf eval`."""

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


def lm_eval(server, folder, *tasks):
    """Runs tasks and returns the folder with the results."""
    for task in tasks:
        text = (HERE / f"{task}.yaml").read_text().replace("FOLDER", str(HERE.resolve()))
        (pathlib.Path(folder) / f"{task}.yaml").write_text(text)
    output = pathlib.Path(folder) / "-".join(tasks)
    command = [
        sys.executable, "-m", "lm_eval", "run", "--model", "local-completions", "--model_args",
        f"model=wf-demo,base_url={server.base_url}/completions,num_concurrent=4,"
        # The begin token of the demo model has the id 0, which lm-eval treats as absent.
        "tokenizer_backend=remote,tokenized_requests=True,custom_prefix_token_id=0",
        "--tasks", ",".join(tasks), "--include_path", folder, "--output_path", str(output),
        "--log_samples",
    ]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ended.returncode == 0, ended.stdout[-6000:]
    return output


def stories(binary, server, folder):
    """Likelihoods equal those of `wf eval`, and accuracy is above chance."""
    [samples] = lm_eval(server, folder, "wf_stories").rglob("samples_*.jsonl")
    samples = [json.loads(line) for line in samples.read_text().splitlines()]
    right = sum(sample["acc"] for sample in samples)
    assert right >= 7, f"{right} of {len(samples)} correct: near chance"
    for sample in samples[:3]:
        start, goes_on = sample["doc"]["start"], sample["doc"]["right"]
        context, whole = ids(server.url, start), ids(server.url, start + goes_on)
        ours = -mean_nll(binary, whole) * (len(whole) - 1)
        ours += mean_nll(binary, context) * (len(context) - 1)
        theirs = float(sample["resps"][0][0][0])
        assert abs(ours - theirs) < 1e-3, (start, ours, theirs)
    return f"{right:.0f} of {len(samples)} right"


def tasks(binary, server, folder):
    """`wf eval tasks` computes the same numbers from the same files, task by task."""
    output = lm_eval(server, folder, "wf_choices", "wf_generations")
    [results] = output.rglob("results_*.json")
    results = json.loads(results.read_text())["results"]
    choices, generations = results["wf_choices"], results["wf_generations"]
    theirs = {name: choices[f"{name},none"] for name in ("acc", "acc_norm", "acc_bytes")}
    errors = {name: choices[f"{name}_stderr,none"] for name in theirs}
    theirs["exact_match"] = generations["exact_match,stripped"]
    errors["exact_match"] = generations["exact_match_stderr,stripped"]

    file, report = pathlib.Path(folder) / "tasks.jsonl", pathlib.Path(folder) / "report.jsonl"
    names = ("choices.jsonl", "generations.jsonl")
    file.write_text("".join((HERE / name).read_text() for name in names))
    command = [binary, "eval", "tasks", str(file), "--json", "--output", str(report)]
    ours = json.loads(subprocess.check_output(command))
    for name, value in theirs.items():
        assert abs(ours[name]["value"] - value) < 1e-12, (name, ours, theirs)
        assert abs(ours[name]["stderr"] - errors[name]) < 1e-9, (name, ours, errors)
    assert 0 < theirs["acc"] < 1 and 0 < theirs["exact_match"] < 1, theirs
    assert theirs["acc"] != theirs["acc_norm"], theirs

    [samples] = output.rglob("samples_wf_choices_*.jsonl")
    samples = sorted(map(json.loads, samples.read_text().splitlines()), key=lambda s: s["doc_id"])
    for sample, line in zip(samples, report.read_text().splitlines()):
        for theirs, ours in zip(sample["resps"], json.loads(line)["loglikelihoods"], strict=True):
            assert abs(float(theirs[0][0]) - ours) < 1e-4, (sample["doc"], theirs, ours)
    return f"`wf eval tasks` the same in {len(report.read_text().splitlines())} tasks"


def main(binary):
    with tempfile.TemporaryDirectory() as folder, Server(binary) as server:
        said = stories(binary, server, folder), tasks(binary, server, folder)
    print(f"lm-eval: {', '.join(said)}: ok")


main(sys.argv[1])
