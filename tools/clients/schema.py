"""Runs schemathesis on /openapi.json with valid and invalid requests: no status 5xx."""

import subprocess
import sys

from server import Server

EXAMPLES = sys.argv[3] if len(sys.argv) > 3 else "25"

with Server(sys.argv[1]) as server:
    command = [
        sys.argv[2], "run", server.url + "/openapi.json", "--url", server.url,
        "--mode", "all", "--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES,
        "--checks", "not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance",
        "--workers", "2", "--request-timeout", "30", "--seed", "1",
    ]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ended.returncode != 0:
        print(ended.stdout[-8000:])
        sys.exit("schemathesis found failures")
    assert server.process.poll() is None, "the server exited"
print("schemathesis: ok")
