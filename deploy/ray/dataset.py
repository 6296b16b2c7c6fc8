"""Generates and embeds over a Ray dataset: each worker has a model of its own.

    pip install "ray[data]" wrinklefree-*.whl
    python deploy/ray/dataset.py --prompts prompts.txt --output out/ --model hf:owner/repo --workers 2

The output is JSON lines with `prompt`, `text` and `embedding`. The same prompts give the same results for any number of
workers and any size of batches.
"""

import argparse

import numpy
import ray
from wrinklefree import LLM


class Worker:
    """A model in one process of Ray. Its threads are the CPUs that Ray gives it."""

    def __init__(self, model, threads, max_tokens):
        # Ray sets OMP_NUM_THREADS to the CPUs of an actor; the number is given all the same, to be seen here.
        self.llm = LLM(model, threads=threads) if model else LLM(threads=threads)
        self.max_tokens = max_tokens

    def __call__(self, batch):
        """Runs all prompts of a batch together."""
        prompts = [str(prompt) for prompt in batch["prompt"]]
        completions = self.llm.generate(prompts, max_tokens=self.max_tokens, temperature=0.0)
        vectors = self.llm.embed(prompts)
        texts = numpy.array([completion.text for completion in completions], dtype=object)
        return {"prompt": batch["prompt"], "text": texts, "embedding": numpy.array(vectors, dtype=numpy.float32)}


def run(prompts, model=None, workers=2, threads=1, batch=32, max_tokens=64):
    """Returns a dataset of the results, which is computed when it is read."""
    dataset = ray.data.from_items([{"prompt": prompt} for prompt in prompts])
    return dataset.repartition(workers * 4).map_batches(
        Worker,
        fn_constructor_kwargs={"model": model, "threads": threads, "max_tokens": max_tokens},
        batch_size=batch,
        num_cpus=threads,
        compute=ray.data.ActorPoolStrategy(size=workers),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", required=True, help="file with a prompt per line")
    parser.add_argument("--output", required=True, help="folder for the results")
    parser.add_argument("--model", help="model [default: the built-in demo]")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="CPUs of each worker")
    parser.add_argument("--max-tokens", type=int, default=64)
    args = parser.parse_args()
    with open(args.prompts, encoding="utf-8") as file:
        prompts = [line.rstrip("\n") for line in file if line.strip()]
    results = run(prompts, args.model, args.workers, args.threads, max_tokens=args.max_tokens)
    results.write_json(args.output)


if __name__ == "__main__":
    main()
