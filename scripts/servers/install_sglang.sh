#!/bin/bash
# Real SGLang on the CPU: install_sglang.sh VENV. About a minute with a warm cache, 2.0 GB on disk. Python 3.11, x86-64.
# A measured recipe: no source of SGLang is changed; three packages are replaced by small stubs (sglang/stubs): sgl_kernel (pure torch
# for the one symbol that a dense model needs), triton and torchvision (import only). Dense text models only.
set -eu
V=$1
HERE=$(cd "$(dirname "$0")" && pwd)
[ -d "$V" ] || python3 -m venv "$V"
pip() { "$V/bin/python" -m pip install -q --disable-pip-version-check "$@"; }
pip torch==2.13.0
pip --no-deps sglang==0.5.23 xgrammar==0.2.7
pip -r "$HERE/sglang/requirements.txt" accelerate
SP=$("$V/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
cp -r "$HERE"/sglang/stubs/. "$SP/"
SGLANG_USE_CPU_ENGINE=1 "$V/bin/python" -c "import sglang"
