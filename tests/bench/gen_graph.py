# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A large graph for memtrace estimate: gen_graph.py NODES OUT.json; times and memory are in docs/estimate.md.

    /usr/bin/time -v build/memtrace estimate OUT.json
"""
import random
import sys


def main():
    cnt, rng = int(sys.argv[1]), random.Random(1)
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write('{"format":"memtrace-graph","version":1,"devices":["cuda:0"],"graphs":[{"name":"large","nodes":[\n')
        for i in range(cnt):
            op, target = ("placeholder", f"primals_{i}") if i < cnt // 100 else ("call_function", "aten.addmm.default")
            inputs = sorted({rng.randrange(max(0, i - 1000), i) for _ in range(2)}) if op == "call_function" else []
            out = i if rng.random() < 0.7 or not inputs else inputs[0]
            f.write(f'{{"name":"addmm_{i}","op":"{op}","target":"{target}","inputs":{inputs},"outputs":[{out}]}}'.replace(", ", ",")
                    + (",\n" if i < cnt - 1 else "\n"))
        f.write(']}],"storages":[\n' + ",\n".join(f"[0,{rng.randrange(1 << 20) * 4}]" for _ in range(cnt))
                + "\n]}\n")


if __name__ == "__main__":
    main()
