"""Turns a GGUF file into a folder that vLLM and SGLang load: `python gguf_to_hf.py FOLDER FILE OUT`.

Needs torch, transformers, gguf and accelerate: the environment of vLLM has them. About ten seconds for SmolLM2-135M.
"""

from __future__ import annotations

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import quantization_config

_NAMES = ("GGUFQuantizationConfig", "GgufQuantizationConfig", "GgufConfig", "GGUFConfig")  # the name changes between releases


def main(folder: str, file: str, out: str) -> None:
    config = next(getattr(quantization_config, name) for name in _NAMES if hasattr(quantization_config, name))
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, dtype=torch.bfloat16, quantization_config=config(dequantize=True)
    )
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(out)


if __name__ == "__main__":
    main(*sys.argv[1:4])
