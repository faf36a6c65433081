#!/bin/bash
# serve_sglang.sh VENV PORT MODEL_DIR [more sglang arguments]. Ready after about 18 s: poll /health.
# A measured recipe. Start it in its own process group; SIGTERM to the first process drains.
set -eu
# Threads that wait for one another do not spin: on busy cores that is many times slower.
export GOMP_SPINCOUNT=0 OMP_WAIT_POLICY=PASSIVE
VENV=$1; PORT=$2; MODEL=$3; shift 3
export SGLANG_USE_CPU_ENGINE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TORCH_COMPILE_DISABLE=1 DO_NOT_TRACK=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
exec "$VENV/bin/python" -m sglang.launch_server --model-path "$MODEL" --served-model-name local --device cpu --attention-backend torch_native \
  --disable-cuda-graph --host 127.0.0.1 --port "$PORT" --context-length 2048 --max-running-requests 16 --max-total-tokens 20000 \
  --mem-fraction-static 0.3 --enable-metrics --enable-cache-report "$@"
