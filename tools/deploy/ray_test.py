"""The Ray example on two local workers: the results are those of the module alone.

    python tools/deploy/ray_test.py        in an environment with ray[data] and the wheel
"""

import pathlib
import sys

import numpy
import ray

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent / "deploy/ray"))
import dataset
from wrinklefree import LLM

PROMPTS = [f"Once upon a time there were {count} small dogs" for count in range(24)]

# One CPU more than the workers have, for the tasks that divide the data.
ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, configure_logging=False,
         runtime_env={"env_vars": {"PYTHONPATH": str(pathlib.Path(dataset.__file__).parent)}})
found = {row["prompt"]: row for row in dataset.run(PROMPTS, workers=2, batch=5, max_tokens=12).take_all()}
assert sorted(found) == sorted(PROMPTS)
alone = LLM(threads=1)
for prompt, completion, vector in zip(
    PROMPTS, alone.generate(PROMPTS, max_tokens=12, temperature=0.0), alone.embed(PROMPTS)
):
    assert found[prompt]["text"] == completion.text, prompt
    assert numpy.array_equal(found[prompt]["embedding"], numpy.array(vector, dtype=numpy.float32)), prompt
print(f"ray {ray.__version__}: {len(PROMPTS)} prompts on two workers: the same texts and vectors as alone")
