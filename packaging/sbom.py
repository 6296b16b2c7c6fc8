#!/usr/bin/env python3
"""Prints the software bill of materials of `wf` for one target, as CycloneDX 1.5 in JSON.

    packaging/sbom.py TARGET

It lists the crates that are compiled into the binary, with the digests of Cargo.lock: neither crates for other
systems nor those that only tests and build scripts use. The output depends on the sources alone.
"""

import json
import os
import subprocess
import sys
import tomllib
import uuid
from datetime import UTC, datetime


def cargo_metadata(target):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def linked(metadata):
    """Returns the ids of the packages that the binary is linked from, and what each of them depends on."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    kinds = {
        package["id"]: {kind for target in package["targets"] for kind in target["kind"]}
        for package in metadata["packages"]
    }
    root = next(p["id"] for p in metadata["packages"] if p["name"] == "wf" and p["source"] is None)
    edges, queue = {}, [root]
    while queue:
        package = queue.pop()
        if package in edges:
            continue
        edges[package] = sorted(
            dependency["pkg"]
            for dependency in nodes[package]["deps"]
            # A null kind is a normal dependency. Procedural macros run in the compiler.
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
            and "proc-macro" not in kinds[dependency["pkg"]]
        )
        queue += edges[package]
    return root, edges


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, digests, kind="library"):
    described = {"type": kind, "bom-ref": purl(package), "name": package["name"]}
    described |= {"version": package["version"], "purl": purl(package)}
    if package["description"]:
        described["description"] = " ".join(package["description"].split())
    if package["license"]:
        # Old manifests separate alternatives by a slash.
        expression = package["license"].replace("/", " OR ") if " " not in package["license"] else package["license"]
        described["licenses"] = [{"expression": expression}]
    digest = digests.get((package["name"], package["version"]))
    if digest:
        described["hashes"] = [{"alg": "SHA-256", "content": digest}]
    if package["repository"]:
        described["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return described


def main():
    target = sys.argv[1]
    metadata = cargo_metadata(target)
    packages = {package["id"]: package for package in metadata["packages"]}
    with open("Cargo.lock", "rb") as lock:
        locked = tomllib.load(lock)["package"]
    digests = {(p["name"], p["version"]): p["checksum"] for p in locked if "checksum" in p}
    root, edges = linked(metadata)
    libraries = sorted((i for i in edges if i != root), key=lambda i: purl(packages[i]))
    dependencies = [
        {"ref": purl(packages[i]), "dependsOn": sorted({purl(packages[d]) for d in edges[i]})}
        for i in [root, *libraries]
    ]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": component(packages[root], digests, "application"),
            "properties": [{"name": "cargo:target", "value": target}],
        },
        "components": [component(packages[i], digests) for i in libraries],
        "dependencies": dependencies,
    }
    content = json.dumps(bom, sort_keys=True)
    bom["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}"
    print(json.dumps(bom, indent=2, sort_keys=True))


main()
