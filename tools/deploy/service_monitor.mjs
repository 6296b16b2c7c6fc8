// Validates a ServiceMonitor against the schema of the Prometheus operator: service_monitor.mjs FILE
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor";
import { parse } from "yaml";

const manifest = parse(readFileSync(process.argv[2], "utf8"));
new ServiceMonitor(manifest).validate();
// The validator does object.
const broken = structuredClone(manifest);
broken.spec.endpoints[0].interval = 5;
assert.throws(() => new ServiceMonitor(broken).validate(), /interval must be string/);
console.log("ServiceMonitor: valid");
