"""SkyPilot's own reading of the tasks and the service in deploy/skypilot."""

import pathlib

import sky

DIR = pathlib.Path(__file__).parent.parent.parent / "deploy/skypilot"
GIVEN = {"WF_RELEASE": "https://releases.example/v1"}
SECRETS = {"WF_API_KEY": "secret"}
# Machine types of the system that this one replaces.
MACHINES = {"wf-c3d.yaml": "c3d-standard-90", "wf-h3.yaml": "h3-standard-88", "service.yaml": "c3d-standard-90"}


def load(path):
    return sky.Task.from_yaml_config(
        sky.utils.yaml_utils.read_yaml(str(path)), env_overrides=list(GIVEN.items()), secrets_overrides=list(SECRETS.items())
    )


tasks = {path.name: load(path) for path in sorted(DIR.glob("*.yaml"))}
assert tasks.keys() == MACHINES.keys(), tasks
for name, task in tasks.items():
    (resources,) = task.resources
    assert resources.instance_type == MACHINES[name], (name, resources)
    assert resources.ports == ["30000"], (name, resources.ports)
    # Threads are pinned, one to a core.
    assert "--cpus" in task.run and "lscpu" in task.run, name
    assert task.envs["WF_RELEASE"] == GIVEN["WF_RELEASE"], name
    assert resources.use_spot == (name != "wf-h3.yaml"), name
    if resources.use_spot:
        # Spare capacity has 30 seconds from SIGTERM to its end.
        assert int(task.envs["WF_DRAIN"]) < 30, name
service = tasks["service.yaml"].service
assert service.readiness_path == "/health" and (service.min_replicas, service.max_replicas) == (3, 20)
print(f"tasks: SkyPilot {sky.__version__} loads {', '.join(tasks)}")
