"""locust: five users for half a minute, without a failure."""

import csv
import sys
from pathlib import Path

from bench import Bench, ok

LOCUST = Path(sys.executable).parent / "locust"
USERS = '''
from locust import HttpUser, task

class Teller(HttpUser):
    @task
    def story(self):
        body = {"messages": [{"role": "user", "content": "Tell me a story"}], "max_tokens": 8}
        with self.client.post("/v1/chat/completions", json=body, catch_response=True) as reply:
            if reply.json()["usage"]["completion_tokens"] != 8:
                reply.failure(reply.text)
'''

with Bench() as bench:
    (bench.home / "users.py").write_text(USERS)
    bench.run(LOCUST, "-f", "users.py", "--headless", "-u", "5", "-r", "5", "-t", "30s", "--host", bench.url,
              "--csv", "out", "--stop-timeout", "60")
    with open(bench.home / "out_stats.csv") as file:
        [total] = [row for row in csv.DictReader(file) if row["Name"] == "Aggregated"]
    assert int(total["Request Count"]) >= 5 and int(total["Failure Count"]) == 0, total
    bench.none_refused("/v1/chat/completions")
ok("locust")
