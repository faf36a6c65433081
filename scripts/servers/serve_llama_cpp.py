"""A real llama.cpp server (the xllamacpp wheel): `GOMP_SPINCOUNT=0 python serve_llama_cpp.py --model X.gguf --port 8080`.

The context is divided between the slots. Without GOMP_SPINCOUNT=0 two threads on two busy cores can be five times slower.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias", default="local")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--ctx", type=int, default=16384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--api-key")
    given = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = given.model
    params.model_alias = {given.alias} if isinstance(params.model_alias, set) else given.alias
    params.n_ctx, params.n_parallel, params.port = given.ctx, given.parallel, given.port
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = given.threads
    params.endpoint_metrics = params.endpoint_props = params.endpoint_slots = True
    if given.api_key:
        params.api_keys = [given.api_key]
    server = xllamacpp.Server(params)
    sys.stdout.write(f"READY {server.listening_address} pid={os.getpid()}\n")
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
