"""flexllm 0.17.10, used as its documentation says. usage: BASE_URL N CONCURRENCY PROMPTS OUT. Needs flexllm.

Persists: output_jsonl appended through a ~1 s buffer, compacted on close; resume by index.
"""
# ruff: noqa: E401, I001, ANN201, E741, PTH103, PTH107, PTH110, PTH120, PTH123 - a short script, kept as it was measured before

import asyncio, itertools, json, os, sys, time
from flexllm import LLMClient

base, n, conc = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
inp = sys.argv[4] if len(sys.argv) > 4 else "prompts.jsonl"
out = sys.argv[5] if len(sys.argv) > 5 else "out/flexllm.jsonl"
os.makedirs(os.path.dirname(out), exist_ok=True)
if os.environ.get("RESUME") != "1" and os.path.exists(out):
    os.remove(out)
with open(inp) as f:
    msgs = [[{"role": "user", "content": json.loads(l)["text"]}] for l in itertools.islice(f, n)]


async def main():
    async with LLMClient(model="mock", base_url=base, api_key="x", concurrency_limit=conc, max_qps=100000) as c:
        t = time.perf_counter()
        r = await c.chat_batch(msgs, output_jsonl=out, show_progress=False)
        dt = time.perf_counter() - t
        print(
            json.dumps(
                {
                    "peer": "flexllm",
                    "n": n,
                    "ok": r.success_count,
                    "fail": r.failed_count,
                    "conc": conc,
                    "s": round(dt, 2),
                    "rps": round(n / dt, 1),
                }
            )
        )


asyncio.run(main())
