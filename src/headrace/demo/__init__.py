"""The demo's job and data, as files: job.toml, records.jsonl, labels.jsonl, ATTRIBUTION.md. Read by `headrace.runs.demo`."""
