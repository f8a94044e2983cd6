#!/usr/bin/env python3
"""What MLflow's REST API 2.0 says of the calls that contrib/metrics2 makes, with its limits: a request
has up to 1000 metrics and 100 params, keys have certain characters, params do not change.

usage: fake_mlflow.py DIRECTORY    writes DIRECTORY/port, and after each call DIRECTORY/runs.json"""
import http.server
import json
import os
import re
import sys
import urllib.parse

out = sys.argv[1]
experiments, runs = {}, {}


class Bad(Exception):
    pass


def need(fine, what, code="INVALID_PARAMETER_VALUE"):
    if not fine:
        raise Bad(code, what)


def get_by_name(body):
    need(body["experiment_name"] in experiments, "no such experiment", "RESOURCE_DOES_NOT_EXIST")
    name = body["experiment_name"]
    return {"experiment": {"experiment_id": experiments[name], "name": name}}


def create_experiment(body):
    need(body["name"] not in experiments, "there is one", "RESOURCE_ALREADY_EXISTS")
    experiments[body["name"]] = str(len(experiments) + 1)
    return {"experiment_id": experiments[body["name"]]}


def create_run(body):
    need(body["experiment_id"] in experiments.values(), "no such experiment")
    run = "r%d" % (len(runs) + 1)
    runs[run] = dict(body, status="RUNNING", metrics=[], params={}, requests=0)
    return {"run": {"info": {"run_id": run}}}


def log_batch(body):
    run = runs[body["run_id"]]
    metrics, params = body.get("metrics", []), body.get("params", [])
    need(len(metrics) <= 1000 and len(params) <= 100, "too many")
    for m in metrics:
        need(set(m) == {"key", "value", "timestamp", "step"}, "not a metric: %s" % m)
        need(re.fullmatch(r"[\w\-. :/]+", m["key"]), "no key: " + m["key"])
        need(isinstance(m["step"], int) and isinstance(m["timestamp"], int), "no int64")
    for p in params:
        need(run["params"].setdefault(p["key"], p["value"]) == p["value"], "a param changes")
    run["metrics"] += metrics
    run["requests"] += 1
    return {}


def update(body):
    need(body["status"] in ("RUNNING", "FINISHED", "FAILED", "KILLED"), "no status")
    runs[body["run_id"]].update(body)
    return {}


CALLS = {
    ("GET", "experiments/get-by-name"): get_by_name,
    ("POST", "experiments/create"): create_experiment,
    ("POST", "runs/create"): create_run,
    ("POST", "runs/log-batch"): log_batch,
    ("POST", "runs/update"): update,
}


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        path = urllib.parse.urlsplit(self.path)
        name = path.path.split("/api/2.0/mlflow/")[-1]
        try:
            need((self.command, name) in CALLS, "no such call", "ENDPOINT_NOT_FOUND")
            status, said = 200, CALLS[self.command, name](body)
        except Bad as e:
            status, said = (404 if "EXIST" in e.args[0] else 400), dict(
                error_code=e.args[0], message=e.args[1]
            )
        with open(os.path.join(out, "runs.json"), "w") as f:
            json.dump(runs, f)
        text = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        self.answer({k: v[0] for k, v in query.items()})

    def do_POST(self):
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open(os.path.join(out, "port.new"), "w") as f:
    f.write(str(server.server_port))
os.rename(os.path.join(out, "port.new"), os.path.join(out, "port"))
server.serve_forever()
