# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Jobs in containers, watched from the host: their own pids, their own mounts, a root that is an overlay, and libraries at paths
which are other files out here."""
import contextlib
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess

import mt
import test_categories
import test_serve
import test_truth

SLOW = {"worker_in_a_container"}
LANDING = {"death_of_a_container", "labels_of_a_pod"}
HERE = pathlib.Path(__file__).resolve().parent


def container(scratch, source, at):
    """The words before a command that put it into one (container.sh)."""
    words = ["unshare", "-m", "-p", "-f", "--kill-child", "--propagation", "private", HERE / "container.sh"]
    probe = scratch / "probe"
    probe.mkdir()
    if subprocess.run([*words, probe, source, probe / "x", "true"], capture_output=True, check=False).returncode:
        raise mt.Skip("no overlay of / can be mounted here")
    (scratch / "mounts").mkdir()
    return [*words, scratch / "mounts", source, at]


def inner(job):
    """The pid out here of the container's first process, which is `job` itself in its own eyes."""
    with open(f"/proc/{job.pid}/task/{job.pid}/children") as f:
        pid, = map(int, f.read().split())
    with open(f"/proc/{pid}/status") as f:
        mt.check(next(line for line in f if line.startswith("NSpid")).split()[2:] == ["1"], f"{pid} is not alone")
    mt.check(not os.path.samefile(f"/proc/{pid}/root", "/"), "it has our root")
    return pid


def decoys(at, names, real):
    """Other libraries of these names at those paths out here: whoever looks there finds symbols, in other places."""
    at.mkdir(parents=True)
    for name in names:
        shutil.copy(real[name], at / name)


def mapped(pid, name):
    with open(f"/proc/{pid}/maps") as f:
        return {line.split()[-1] for line in f if line.endswith(f"/{name}\n")}


def test_truth_in_a_container():
    """Counts and bytes of the target that knows them, to the byte, where its libraries' paths are other files out here."""
    test_truth.build()
    with mt.scratch() as tmp:
        at = tmp / "t"
        decoys(at / "fake", ("libc10.so", "libtorch_cpu.so"), {name: test_truth.BIN / "truth_plugin.so" for name in
                                                               ("libc10.so", "libtorch_cpu.so")})
        words = container(tmp, test_truth.BIN, at)
        with mt.Proc([*words, at / "truth_torch", "plain"]) as job:
            mt.check(job.line("ready ").split()[1] == "1", f"{job.out}")
            pid = inner(job)
            mt.check(mapped(pid, "libc10.so") == {str(at / "fake" / "libc10.so")}, f"{mapped(pid, 'libc10.so')}")
            with mt.start("record", "-p", str(pid), "-o", str(tmp / "a.mtr"), "--probes", "framework,ops,regions") as tracer:
                test_truth.wait_attached(tracer)
                job.tell("go")
                truth = json.loads(job.line("{"))
                mt.finish(tracer, tmp / "a.mtr")
            job.tell("end")
            mt.check(job.wait() == 0, f"the target failed: {job.err}")
        run = Told(truth, mt.report(tmp / "a.mtr"), mt.export(tmp / "a.mtr"))
    mt.check(not mt.lost(run.report), f"lost: {run.report['lost']}")
    test_truth.check_devices(run)
    test_truth.check_births(run, "op", "ops", "no_op")
    mt.check({p["pid"] for p in run.report["processes"]} == {pid}, f"{run.report['processes']}")


class Told:
    def __init__(self, truth, report, events):
        self.truth, self.report, self.events = truth, report, events


def torch_job(stack, tmp, *args):
    """(the job, its pid out here) with torch at a path where out here the fake torch of the truth targets lies."""
    test_truth.build()
    where = subprocess.run([mt.PYTHON, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"],
                           capture_output=True, text=True, check=True).stdout.strip()
    at = tmp / "site" / "torch"
    names = ("libc10.so", "libtorch_cpu.so")
    decoys(at / "lib", names, {name: test_truth.BIN / "fake" / name for name in names})
    words = container(tmp, where, at)
    job = stack.enter_context(mt.job(*args, wrapper=(*words, "env", f"PYTHONPATH={at.parent}")))
    pid = inner(job)
    for name in names:
        mt.check(mapped(pid, name) == {str(at / "lib" / name)}, f"{mapped(pid, name)}")
    return job, pid


def probed(pid):
    return mt.probed(pid, mt.NEW) or mt.probed(pid, mt.OP)


def test_torch_in_a_container():
    """Attached in mid-run: categories and names as out here; nothing is left behind, and the job goes on."""
    with mt.scratch() as tmp, contextlib.ExitStack() as stack:
        job, pid = torch_job(stack, tmp, "mlp")
        with mt.start("record", "-p", str(pid), "-o", str(tmp / "a.mtr"), "-vv") as tracer:
            mt.wait_attached(tracer, pid, mt.OP)
            test_categories.python_is_known(tracer, pid)
            before = mt.steps_of(job)
            mt.wait_until(lambda: mt.steps_of(job) > before + 2, "steps")
            os.kill(pid, signal.SIGUSR1)
            job.line("rests", 30)  # between two steps: an optimizer's temporaries are not compared
            mt.finish(tracer, tmp / "a.mtr")
        os.kill(pid, signal.SIGUSR1)  # it goes on
        rep = mt.report(tmp / "a.mtr")
        names = mt.ok(mt.memtrace("report", tmp / "a.mtr", "--by", "name", "--top", 100)).stdout
        mt.wait_until(lambda: not probed(pid), "the probes to go")
        before = mt.steps_of(job)
        mt.wait_until(lambda: mt.steps_of(job) > before, "the job's next steps")
    mt.check(not mt.lost(rep), f"lost: {rep['lost']}")
    live = {name: c["live"] for name, c in rep["devices"]["cpu"]["categories"].items()}
    parameters = 4 * 6 * (64 * 64 + 64)
    mt.check(live["PARAMETER"] == parameters, f"{live}, parameters have {parameters}")
    mt.check(2 * parameters <= live["OPTIMIZER_STATE"] <= 2 * parameters + 12 * 64, f"{live}")
    for i in range(6):
        for name in (f"parameter        Sequential: {2 * i}.weight", f"parameter        Sequential: {2 * i}.bias"):
            mt.check(name in names, names)


def test_worker_in_a_container():
    """Workers of a DataLoader, which know themselves by the container's pids, are followed by those out here."""
    with mt.scratch() as tmp, contextlib.ExitStack() as stack:
        _, pid = torch_job(stack, tmp, "transformer", "--workers", 1, "--batch", 8)
        with mt.start("record", "-p", str(pid), "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_until(lambda: sum(t.startswith("attached to ") for t in tracer.err) > 1 or not tracer.alive(), "a worker", 30)
            worker = next(int(t.split()[2]) for t in tracer.err if t.startswith("attached to ") and f" {pid} " not in t)
            mt.wait_until(lambda: not os.path.exists(f"/proc/{worker}"), "the worker's end", 30)
            mt.finish(tracer, tmp / "a.mtr")
        rep, events = mt.report(tmp / "a.mtr"), mt.export(tmp / "a.mtr")
    mt.check({pid, worker} <= {p["pid"] for p in rep["processes"]}, f"{rep['processes']}")
    mt.check(any(e["ev"] == "create" and e["pid"] == worker for e in events), "nothing of the worker")


def test_death_of_a_container():
    """Its first process is killed, and all others with it: memtrace ends by itself, and what was seen is there."""
    with mt.scratch() as tmp, contextlib.ExitStack() as stack:
        _, pid = torch_job(stack, tmp, "mlp")
        with mt.start("record", "-p", str(pid), "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_until(lambda: any(t.startswith("attached to") for t in tracer.err) or not tracer.alive(), "attached", 30)
            os.kill(pid, signal.SIGKILL)
            mt.finish(tracer, tmp / "a.mtr", None, 10)
        rep = mt.report(tmp / "a.mtr")
    mt.check(rep["devices"]["cpu"]["live"] == 0, "blocks of a dead process count as live")


# --- pods ----------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def pod_cgroups(*paths):
    """Real cgroups of these names below the root of the unified hierarchy; removed at the end."""
    root = next((pathlib.Path(line.split()[1]) for line in open("/proc/mounts") if line.split()[2] == "cgroup2"), None)
    if not root or not os.access(root / "cgroup.procs", os.W_OK):
        raise mt.Skip("no cgroup can be made here")
    leaves = [root / path for path in paths]

    def is_gone(at):
        """A process that is just ending still holds its cgroup, and is in no list of it any more."""
        try:
            at.rmdir()
        except OSError as e:
            return e.errno != errno.EBUSY
        return True
    try:
        for at in leaves:
            at.mkdir(parents=True)
        yield leaves
    finally:
        for at in leaves:
            mt.wait_until(lambda: is_gone(at), f"{at} to be left by all", 20)  # noqa: B023
        for path, at in zip(paths, leaves):
            for parent in list(at.parents)[:len(pathlib.Path(path).parts) - 1]:
                is_gone(parent)  # but those that others use


def hexes(n):
    return "".join(random.choice("0123456789abcdef") for _ in range(n))


def pod():
    """(uid, container's id, the cgroup's path as systemd's driver names it)"""
    uid, box = "-".join(map(hexes, (8, 4, 4, 4, 12))), hexes(64)
    return uid, box, (f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid.replace('-', '_')}.slice/"
                      f"cri-containerd-{box}.scope")


INTO = ("sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"')


def info_of(s, pid):
    rows = [dict(k[1:]) for k in s.metrics() if k[0] == "memtrace_process_info"]
    row, = [r for r in rows if r["pid"] == str(pid)]
    return {k: v for k, v in row.items() if k not in ("pid", "rank", "comm")}


def test_labels_of_a_pod():
    """serve names pod, namespace and container of a job in a cgroup like Kubernetes makes them, also when it is in a pod itself, whose
    cgroup namespace hides the way to others. What the job says of itself in its environment is believed where it can be a name."""
    uid, box, path = pod()
    _, _, own_path = pod()
    hostile = {"POD_NAMESPACE": "ml-team", "HOSTNAME": "train-0", "POD_NAME": 'x"} 1\n# EOF', "CONTAINER_NAME": "../../\x1b[2J",
               "RANK": "3"}
    with mt.scratch() as tmp, pod_cgroups(path, own_path) as (theirs, own), contextlib.ExitStack() as stack:
        words = container(tmp, mt.ROOT, tmp / "at")
        job = stack.enter_context(mt.job("mlp", wrapper=(*INTO, theirs, *words, "env", *(f"{k}={v}" for k, v in hostile.items()))))
        pid = inner(job)
        wanted = {"pod": "train-0", "namespace": "ml-team", "pod_uid": uid, "container_id": box}
        with test_serve.serving(pid) as s:
            mt.check(info_of(s, pid) == wanted, f"{info_of(s, pid)}")
            mt.check({k[1:] for k in s.metrics() if k[0] == "memtrace_process_up"} == {(("pid", str(pid)), ("rank", "3"))}, "elsewhere, too")
        with mt.Proc([*INTO, own, "unshare", "-C", mt.MEMTRACE, "serve", "-p", str(pid), "--listen", "127.0.0.1:0"]) as proc:
            s = test_serve.Served(proc)
            mt.wait_attached(proc, pid)
            s.ask("/healthz", timeout=mt.guard())
            with open(f"/proc/{pid}/cgroup") as f:
                mt.check(path in f.read(), "not in its cgroup")
            mt.check(info_of(s, pid) == wanted, f"from a pod: {info_of(s, pid)}")
        job.signal(signal.SIGTERM)


def test_labels_of_no_pod():
    """Beside it a job of the same environment in no container: its words are about nothing."""
    with mt.job("mlp", wrapper=("env", "POD_NAME=a", "POD_NAMESPACE=b", "CONTAINER_NAME=c")) as job:
        with open(f"/proc/{job.pid}/cgroup") as f:
            if any(word in f.read() for word in ("docker", "kubepods", "libpod", "containerd")):
                raise mt.Skip("these tests run in a container")
        with test_serve.serving(job.pid) as s:
            mt.check(info_of(s, job.pid) == {}, f"{info_of(s, job.pid)}")
