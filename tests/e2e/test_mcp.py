# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""`memtrace mcp` as clients of the Model Context Protocol use it: the one of the `mcp` package, and lines of our own."""
import json
import os
import subprocess
import textwrap

import grown
import mt
import test_schema as schemas

LANDING = {"a_client_asks", "answers_are_as_the_schemas_say"}

TIMEOUT_S = {"a_client_asks": 300}

# Asks what it is told to, prints the answers: a client of its own process, whose Python has the package.
CLIENT = textwrap.dedent("""
    import asyncio, json, sys
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def main():
        command, mode, asked = sys.argv[1], sys.argv[2], json.loads(sys.argv[4])
        server = StdioServerParameters(command=command, args=["mcp", *json.loads(sys.argv[3])])
        out = {"answers": []}
        async with Client(stdio_client(server), mode=mode) as client:
            out["version"] = client.protocol_version
            out["server"] = client.server_info.name
            out["tools"] = [t.model_dump(by_alias=True) for t in (await client.list_tools()).tools]
            for name, args in asked:
                done = await client.call_tool(name, args)
                out["answers"].append({"error": bool(done.is_error), "text": done.content[0].text, "data": done.structured_content})
        print(json.dumps(out))
    asyncio.run(main())
""")


def need_client():
    done = subprocess.run([mt.PYTHON, "-c", "import mcp.client.stdio; from mcp import Client"], capture_output=True)
    if done.returncode:
        raise mt.Skip("needs the mcp package: tools/make-venv agents")


def client(paths, asked, mode="auto"):
    done = subprocess.run([mt.PYTHON, "-c", CLIENT, mt.MEMTRACE, mode, json.dumps([str(p) for p in paths]), json.dumps(asked)],
                          capture_output=True, text=True, timeout=250)
    mt.check(done.returncode == 0, f"the client failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def record(name, path):
    def is_whole(rep):
        return grown.modules_at_peak(rep) >= 3 and (name == "mlp" or grown.at_peak(rep, "ACTIVATION"))
    grown.record(path, mt.shared_job(name), grown.after(is_whole, 2), "a peak whose modules are known")


def test_a_client_asks():
    need_client()
    with mt.scratch() as tmp:
        a, b = tmp / "a.mtr", tmp / "b.mtr"
        record("transformer", a)
        record("mlp", b)
        asked = [["list_recordings", {}], ["verdict", {"recording": "a.mtr"}], ["peak", {"recording": str(a), "limit": 3}],
                 ["top", {"recording": "a.mtr", "by": "op", "limit": 2}], ["top", {"recording": "a.mtr", "by": "leak"}],
                 ["at_moment", {"recording": "a.mtr", "at": "peak", "category": "ACTIVATION"}],
                 ["diff", {"before": "b.mtr", "after": "a.mtr", "by": "category"}],
                 ["verdict", {}], ["verdict", {"recording": "../a.mtr"}], ["verdict", {"recording": "/etc/passwd"}],
                 ["at_moment", {"recording": "a.mtr", "at": "yesterday"}], ["top", {"recording": "a.mtr", "by": "rank"}],
                 ["verdict", {"recording": "a.mtr", "pid": 1}], ["at_moment", {"recording": "a.mtr", "at": "peak", "pid": 1}]]
        said = client([tmp], asked)
        mt.check(said["version"] == "2026-07-28" and said["server"] == "memtrace", f"{said['version']} {said['server']}")
        mt.check([t["name"] for t in said["tools"]] == ["list_recordings", "verdict", "peak", "top", "at_moment", "diff"], "tools")
        mt.check(all(t["annotations"]["readOnlyHint"] and t["inputSchema"]["type"] == "object" for t in said["tools"]), "tools")
        rows, verdict, peak, top, leak, moment, diff, *wrong = said["answers"]
        mt.check(not any(x["error"] for x in said["answers"][:7]), f"{[x['text'][:300] for x in said['answers'][:7] if x['error']]}")
        mt.check(all(json.loads(x["text"]) == x["data"] for x in said["answers"][:7]), "the text is the data")
        mt.check([r["name"] for r in rows["data"]["recordings"]] == [str(a), str(b)] and rows["data"]["all"] is True, f"{rows}")
        mt.check(rows["data"]["recordings"][0]["bytes"] == a.stat().st_size, f"{rows}")

        rep = mt.report(a)
        mt.check(verdict["data"]["verdict"] == rep["verdict"] and verdict["data"]["steps"] == rep["steps"], f"{verdict}")
        whole = json.loads(mt.ok(mt.memtrace("report", a, "--at", "peak", "--json", "--top", 3)).stdout)
        mt.check(peak["data"] == whole and len(whole["by"]["module"]) == 3, f"{peak}")
        mt.check(top["data"]["ops"] == rep["ops"][:2] and set(top["data"]) == {"schema", "ops", "ops_total"}, f"{top}")
        mt.check(leak["data"]["leaks"] == rep["leaks"] and leak["data"]["leaks_watched"] == rep["leaks_watched"], f"{leak}")
        activations = rep["devices"]["cpu"]["categories"]["ACTIVATION"]["at_peak"]
        mt.check(moment["data"]["bytes"] == activations > 0, f"{moment['data']['bytes']} {activations}")
        mt.check(diff["data"]["by"] == "category" and diff["data"]["b"]["file"] == str(a), f"{diff}")
        mt.check(all(x["error"] and not x["data"] for x in wrong), f"{wrong}")
        for x, words in zip(wrong, ("which recording?", "no recording has the name", "no recording has the name", "is no moment", "rank",
                                  "has no process 1", "has no process 1")):
            mt.check(words in x["text"], f"{words}: {x['text']}")

        both, pid = tmp / "both.mtr", rep["target"]["pid"]
        mt.ok(mt.memtrace("merge", a, b, "-o", both))
        asked = [["verdict", {"pid": pid}], ["peak", {"pid": pid}], ["top", {"by": "op", "pid": pid, "limit": 2}],
                 ["top", {"by": "compile"}], ["top", {"by": "rank", "pid": pid}], ["verdict", {"pid": 4194304 + pid}],
                 ["top", {"by": "symbol"}], ["top", {"by": "symbol", "pid": pid}]]
        one, peak, top, none, rank, far, *symbols = client([both], asked)["answers"]
        mt.check(one["data"]["verdict"] and one["data"]["steps"] == rep["steps"], f"{one}")
        mt.check(peak["data"]["filter"]["pids"] == [pid] and peak["data"]["bytes"] == rep["devices"]["cpu"]["peak"], f"{peak}")
        whole = json.loads(mt.ok(mt.memtrace("report", both, "--pid", pid, "--json")).stdout)
        mt.check(top["data"]["ops"] == whole["ops"][:2], f"{top}")
        mt.check(none["data"] == {"schema": 1, "note": "the recording has nothing of this"}, f"{none}")
        mt.check(all(x["data"]["coverage"]["symbols"] for x in symbols), f"{symbols}")
        mt.check("compares all ranks" in rank["text"] and f"has no process {4194304 + pid}" in far["text"], f"{rank} {far}")
        old = client([a], [["verdict", {}]], mode="legacy")
        mt.check(old["version"] == "2025-11-25" and old["answers"][0]["data"]["verdict"] == rep["verdict"], f"{old}")


def talk(args, lines, timeout=120):
    """Raw lines, after a handshake; the answers to them."""
    hello = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}).encode()
    done = subprocess.run([mt.MEMTRACE, "mcp", *map(str, args)], input=b"\n".join([hello, *lines]) + b"\n", capture_output=True, timeout=timeout)
    mt.check(done.returncode == 0, f"{done.returncode}: {done.stderr[-500:]}")
    return [json.loads(x) for x in done.stdout.splitlines()][1:]


def call(name, **args):
    return json.dumps({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": {"name": name, "arguments": args}}).encode()


def test_answers_are_as_the_schemas_say():
    """Whole documents, or members of a report: these in the place of the report's own."""
    schemas.need_checker()
    with mt.scratch() as tmp:
        a, b = tmp / "a.mtr", tmp / "b.mtr"
        record("mlp", a)
        record("mlp", b)
        tables = ("op", "module", "name", "region", "process", "stack", "symbol", "leak", "saved", "compile")
        said = talk([tmp], [call("peak", recording="a.mtr"), call("at_moment", recording="a.mtr", at="peak", category="ACTIVATION"),
                            call("diff", before="a.mtr", after="b.mtr", by="op"), call("verdict", recording="a.mtr"),
                            *(call("top", recording="a.mtr", by=by, limit=3) for by in tables)])
        mt.check(not any(x["result"]["isError"] for x in said), f"{[x['result']['content'] for x in said if x['result']['isError']]}")
        peak, moment, diff, *parts = (x["result"]["structuredContent"] for x in said)
        rep = mt.report(a)
        members = [part for part in parts if "note" not in part]
        mt.check(len(members) > len(tables) / 2 and all(set(part) <= set(rep) for part in members), f"{[list(part) for part in parts]}")
        documents = [("moment", peak), ("moment", moment), ("diff", diff), *(("report", {**rep, **part}) for part in members)]
        for number, (_, document) in enumerate(documents):
            (tmp / f"{number}.json").write_text(json.dumps(document))
        done = schemas.against_schemas([(name, tmp / f"{number}.json") for number, (name, _) in enumerate(documents)])
        mt.check(done.returncode == 0, f"{done.stdout[:1500]} {done.stderr[-500:]}")


def test_hostile():
    with mt.scratch() as tmp:
        a, noise, cut = tmp / "a.mtr", tmp / "noise.mtr", tmp / "cut.mtr"
        record("mlp", a)
        noise.write_bytes(os.urandom(5000))
        cut.write_bytes(a.read_bytes()[:a.stat().st_size // 2])
        (tmp / "link.mtr").symlink_to("/etc/passwd")
        said = talk([tmp], [b"[" * 100_000, b"x" * 1_000_000, b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', b"\0\0",
                            call("verdict", recording="noise.mtr"), call("verdict", recording="cut.mtr"),
                            call("verdict", recording="link.mtr"), call("at_moment", recording="a.mtr", at="--force"),
                            call("top", recording="a.mtr", by="op", limit=10**9), call("verdict", recording="a.mtr")])
        mt.check([x["error"]["code"] for x in said[:4]] == [-32600, -32600, -32700, -32700], f"{said[:4]}")
        results = [x["result"] for x in said[4:]]
        mt.check([x["isError"] for x in results] == [True, False, True, True, True, False], f"{[x['content'] for x in results]}")
        mt.check("cut" in results[1]["structuredContent"]["warning"], f"{results[1]}")
        mt.check("no recording" in results[0]["content"][0]["text"] or "memtrace" in results[0]["content"][0]["text"], f"{results[0]}")
        mt.check(sorted(p.name for p in tmp.iterdir()) == ["a.mtr", "cut.mtr", "link.mtr", "noise.mtr"], "it has written")
        mt.expect_failure(mt.memtrace("mcp"), 2, "which recordings?")
        mt.expect_failure(mt.memtrace("mcp", "-"), 2, "unexpected")


def message(method, ident=None, **params):
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | ({} if ident is None else {"id": ident})).encode()


def test_while_a_tool_runs():
    """What comes while a tool runs: all of it is in the pipe when the first tool begins, the last third behind what is read at once."""
    with mt.scratch() as tmp:
        a = tmp / "a.mtr"
        record("mlp", a)
        cancel = "notifications/cancelled"
        said = talk([a], [call("peak"), call("verdict"), message("tools/list", "list"), message("ping", "ping"),
                          message(cancel, requestId="verdict"), message(cancel, requestId="unknown"),
                          message("notifications/other", pad="x" * 17_000), message("ping", "late"), message(cancel, requestId="peak")])
        mt.check([x["id"] for x in said] == ["ping", "late", "list"], f"{[x['id'] for x in said]}")
        said = talk([a], [call("verdict"), message("ping", "ping"), message(cancel, requestId="peak")])
        mt.check([x["id"] for x in said] == ["ping", "verdict"] and not said[1]["result"]["isError"], f"{said}")


def test_a_recording_that_is_not_there():
    with mt.scratch() as tmp:
        path = tmp / "job.mtr"
        asked = b"\n".join([message("initialize", 0, protocolVersion="2025-06-18"), call("verdict")]) + b"\n"
        done = subprocess.run([mt.MEMTRACE, "mcp", str(path)], input=asked, capture_output=True, timeout=60)
        mt.check(done.stderr.decode() == f"memtrace: {path}: it is not there yet; each question looks for it again\n", f"{done.stderr}")
        said = json.loads(done.stdout.splitlines()[1])["result"]
        mt.check(said["isError"] and said["content"][0]["text"] == f"there is no recording yet at {path}", f"{said}")


def test_has_no_rights():
    mt.need_root()
    with mt.scratch() as tmp:
        proc = subprocess.Popen([mt.MEMTRACE, "mcp", str(tmp)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            proc.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            proc.stdin.flush()
            mt.check(b'"result"' in proc.stdout.readline(), "ping")
            with open(f"/proc/{proc.pid}/status") as f:
                status = dict(line.split(":", 1) for line in f)
            caps = {k: int(status[k], 16) for k in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")}
            mt.check(not any(caps.values()) and status["NoNewPrivs"].strip() == "1", f"{caps}")
        finally:
            proc.stdin.close()
            mt.check(proc.wait(60) == 0, "it ends when its input does")
            proc.stdout.close()


def test_a_recording_in_progress():
    with mt.scratch() as tmp:
        path = tmp / "live.mtr"
        tracer = mt.start("record", "-p", str(mt.shared_job("mlp").pid), "-o", str(path))
        try:
            steps, warnings = [], set()

            def grown():
                said = talk([tmp], [call("verdict")])[0]["result"]
                if not said["isError"] and said["structuredContent"]["steps"]:  # one asked at the attach has none yet
                    steps.append(said["structuredContent"]["steps"])
                    warnings.add(said["structuredContent"]["warning"])
                return len(steps) > 1 and steps[-1] > steps[0]
            mt.wait_until(grown, "answers about a recording that grows", timeout=120, pause=1)
            mt.note(f"steps in the answers: {steps}")
            mt.check(any("is still being written, or its end is missing" in x for x in warnings), f"{warnings}")
        finally:
            mt.finish(tracer)
