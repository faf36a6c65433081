"""The usual skeleton: openai SDK in a thread pool, retries with exponential back-off, one JSON line per result.

What people write first; the pattern of the SDK's own examples. usage: BASE_URL N CONCURRENCY PROMPTS OUT. Needs openai.
"""
# ruff: noqa: E401, I001, ANN001, ANN201, PTH123, RET503, SIM115 - it is measured as people write it

import itertools, json, sys, time
from concurrent.futures import ThreadPoolExecutor, as_completed
from openai import OpenAI

base, n, conc, inp, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
client = OpenAI(api_key="x", base_url=base)
items = [json.loads(x)["text"] for x in itertools.islice(open(inp), n)]


def one(item, retries=4):
    for attempt in range(retries):
        try:
            return (
                client.chat.completions.create(model="m", messages=[{"role": "user", "content": item}], temperature=0)
                .choices[0]
                .message.content
            )
        except Exception:
            if attempt == retries - 1:
                raise
            time.sleep(2**attempt)


t = time.perf_counter()
done = 0
with ThreadPoolExecutor(max_workers=conc) as pool, open(out, "w") as f:
    futs = {pool.submit(one, it): i for i, it in enumerate(items)}
    for fut in as_completed(futs):
        f.write(json.dumps({"id": futs[fut], "answer": fut.result()}) + "\n")
        done += 1
print(json.dumps({"peer": "skeleton", "n": n, "ok": done, "s": round(time.perf_counter() - t, 2)}))
