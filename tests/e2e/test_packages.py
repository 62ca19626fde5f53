# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""make rpm into an empty root, make image as a container, and the chart for Kubernetes, rendered by Helm itself and checked against
Kubernetes' own schemas. The container runs with exactly what the chart's pod is given: arguments, capabilities, mounts, a read-only
root, the runtime's usual filter of system calls, namespaces and a cgroup of its own, made by runc.

Without rpm, umoci and runc (tools/install-deps packages) or Helm (tools/make-venv packages) what needs them is skipped.
"""
import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess

import first_minute
import mt
import test_containers
import test_serve
from test_bundle import mounted, unmount
from test_install import run

SLOW = {"rpm", "image", "pod_of_the_chart", "first_minute", "on_ubuntu", "built_on_ubuntu"}
TIMEOUT_S = {"first_minute": 600, "on_ubuntu": 600, "built_on_ubuntu": 1500}
ALONE = {"pod_of_the_chart"}
CHART = mt.ROOT / "tools/kubernetes/chart"
MANIFEST = mt.ROOT / "tools/kubernetes/daemonset.yaml"
SECCOMP = pathlib.Path("/usr/share/containers/seccomp.json")
TOKEN = "0123456789abcdef0123456789abcdef"
# Ubuntu 24.04, and the key that its archive is signed with since 2018: F6EC B376 2474 EDA9 D21B 7022 8719 20D1 991B C93C.
UBUNTU = ("noble", "--components=main,universe", f"--keyring={pathlib.Path(__file__).with_name('ubuntu-archive.asc')}")


def need(*programs):
    if missing := [p for p in programs if not shutil.which(p)]:
        raise mt.Skip(f"no {', '.join(missing)}: tools/install-deps packages")


def made(target):
    """The file that a target of make has made."""
    return pathlib.Path(run("make", "-s", "--no-print-directory", target, cwd=mt.ROOT).strip().splitlines()[-1])


# --- rpm -----------------------------------------------------------------------------------------------------

def test_rpm():
    """It needs no other package, so it is installed without --nodeps into a root with nothing in it, and runs there."""
    need("rpm", "rpmbuild")
    rpm = made("rpm")
    with mt.scratch() as root:
        at = ("rpm", "--root", root, "--dbpath", "/var/lib/rpm")
        run(*at, "--initdb")
        run(*at, "--install", rpm)
        mt.check(run(*at, "-V", "memtrace") == "", "files are as the package says")
        mt.check(run(*at, "-q", "memtrace").startswith(f"memtrace-{(mt.ROOT / 'VERSION').read_text().strip()}-1."), "its version")
        needs = {line.split()[0] for line in run("rpm", "-qp", "--requires", rpm).splitlines()}
        mt.check(all(n.startswith("rpmlib(") for n in needs), f"it needs {needs}")
        mt.check(run("rpm", "-qp", "--scripts", rpm) == "", "it has scripts")
        owned = set(run(*at, "-ql", "memtrace").split("\n")) - {""}
        mt.check({"/usr/bin/memtrace", "/usr/lib/memtrace", "/usr/share/man/man1/memtrace.1.gz", "/usr/share/zsh/site-functions/_memtrace",
                  "/usr/share/memtrace/schema/report.schema.json"} <= owned, f"{sorted(owned)}")
        mt.check(not {"/usr/share/man", "/usr/bin", "/usr/include"} & owned, "it claims folders of the system")
        mt.check(not any((root / name).exists() for name in ("lib", "lib64", "bin", "usr/lib64")), "not an empty root")
        mounted(root)
        try:
            there = subprocess.run(["chroot", root, "/usr/bin/memtrace", "--version"], capture_output=True, text=True, check=False)
            mt.check(there.stdout == mt.ok(mt.memtrace("--version")).stdout, f"--version: {there}")
            with mt.job("mlp") as job:
                done = subprocess.run(["chroot", root, "/usr/bin/memtrace", "record", "-p", str(job.pid), "-d", "2", "-o", "/a.mtr"],
                                      capture_output=True, text=True, timeout=60, check=False)
                mt.check(done.returncode in (0, 3), f"record: {done}")
            said = mt.ok(subprocess.run(["chroot", root, "/usr/bin/memtrace", "report", "/a.mtr"], capture_output=True, text=True, check=False))
            mt.check(said.stdout.startswith("Peak "), said.stdout[:300])
        finally:
            unmount(root)
        (root / "a.mtr").unlink()
        run(*at, "--erase", "memtrace")
        left = [str(p) for p in (root / "usr").rglob("*memtrace*")]
        mt.check(not left, f"left behind: {left}")
        first = rpm.read_bytes()
        mt.check(made("rpm").read_bytes() == first, "made again it is another")
        mt.note(f"{rpm.name}: {rpm.stat().st_size / 1e6:.1f} MB")


# --- deb -----------------------------------------------------------------------------------------------------

def test_first_minute():
    """From the package on a bare system to a verdict on a running job: two commands, less than a minute."""
    need("mmdebstrap", "dpkg-deb")
    deb = made("deb")
    with mt.scratch() as tmp:
        first_minute.bare_root(tmp / "root")
        check_first_minute(tmp / "root", deb)


def check_first_minute(root, deb):
    told = first_minute.first_minute(root, deb)
    said = first_minute.verdict(told[1][1])
    mt.check(said.startswith("Peak ") and "activations" in said and "next: " in said and "grows" in said, f"the verdict: {said}")
    mt.check(sum(seconds for *_, seconds in told) < 60, f"{[seconds for *_, seconds in told]}")
    mt.check(run("dpkg", f"--root={root}", "--verify", "memtrace") == "", "files are as the package says")
    mt.note(f"{told[0][3]:.0f} s to install, {told[1][3]:.0f} s to look")


def test_on_ubuntu():
    """The package that Debian 12 makes, on a bare Ubuntu 24.04: that has its libraries under names of its own (libelf1t64)."""
    need("mmdebstrap", "dpkg-deb")
    if first_minute.here() != "bookworm":
        raise mt.Skip("this machine is no Debian 12")
    deb = made("deb")
    with mt.scratch() as tmp:
        first_minute.bare_root(tmp / "root", *UBUNTU)
        check_first_minute(tmp / "root", deb)


def test_built_on_ubuntu():
    """README's commands on a bare Ubuntu 24.04: it installs what it needs, builds, and makes a package, which another bare one runs."""
    need("mmdebstrap")
    with mt.scratch() as tmp:
        first_minute.bare_root(tmp / "root", *UBUNTU)
        run("cp", "-a", tmp / "root", tmp / "build")
        tree = tmp / "build/root/memtrace"
        tree.mkdir()
        files = run("git", "-C", mt.ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        for name in filter(None, files):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(mt.ROOT / name, tree / name, follow_symlinks=False)
        if (mt.BUILD / "uplot").exists():  # the page's library is npm's, not Ubuntu's
            shutil.copytree(mt.BUILD / "uplot", tree / "build/uplot")
        with first_minute.entered(tmp / "build") as words:
            done = subprocess.run([*words, "sh", "-c", "cd /root/memtrace && tools/install-deps build && make -s -j2 && make -s deb"],
                                  capture_output=True, text=True, timeout=mt.guard(1200), check=False)
        mt.check(done.returncode == 0, f"{done.returncode} {done.stdout[-1000:]} {done.stderr[-3000:]}")
        deb, = (tree / "build").glob("memtrace_*.deb")
        mt.check("libmicrohttpd12t64" in run("dpkg-deb", "-f", deb, "Depends"), "it is not Ubuntu's")
        check_first_minute(tmp / "root", deb)


# --- image ---------------------------------------------------------------------------------------------------

def unpacked(tmp):
    """The image as a bundle for a runtime; its layout was an archive."""
    image = made("image")
    (tmp / "layout").mkdir()
    run("tar", "-xf", image, "-C", tmp / "layout")
    tag = (mt.ROOT / "VERSION").read_text().strip()
    run("umoci", "unpack", "--image", f"{tmp / 'layout'}:{tag}", tmp / "box")
    return image, tmp / "box"


@contextlib.contextmanager
def running(box, config, name):
    """runc of this bundle in the background."""
    (box / "config.json").write_text(json.dumps(config))
    proc = mt.Proc(["runc", "--root", box.parent / "runc", "run", "--bundle", box, name])
    try:
        yield proc
    finally:
        subprocess.run(["runc", "--root", box.parent / "runc", "delete", "--force", name], capture_output=True, check=False)
        proc.close()


def test_image():
    """All that is in it is memtrace; its first process is that, as the image's own configuration says."""
    need("umoci", "runc")
    with mt.scratch() as tmp:
        image, box = unpacked(tmp)
        root = box / "rootfs"
        mt.check(sorted(p.name for p in root.iterdir()) == ["dev", "etc", "proc", "run", "sys", "tmp", "usr", "var"], "what is in it")
        mt.check(all(p.lstat().st_uid == 0 and (p.is_symlink() or not p.stat().st_mode & 0o6022 or p == root / "tmp")
                     for p in root.rglob("*")), "all is root's, and nobody else writes")
        config = json.loads((box / "config.json").read_text())
        mt.check(config["process"]["args"] == ["/usr/bin/memtrace", "help"], f"{config['process']['args']}")
        config["process"].update(terminal=False, args=["/usr/bin/memtrace", "--version"])
        with running(box, config, "memtrace-version") as proc:
            mt.check(proc.wait(30) == 0, f"{proc.err}")
            mt.check("\n".join(proc.out) + "\n" == mt.ok(mt.memtrace("--version")).stdout, f"{proc.out}")
        run("skopeo", "inspect", f"oci-archive:{image}") if shutil.which("skopeo") else None
        again = made("image").read_bytes()
        mt.check(again == image.read_bytes(), "made again it is another")
        mt.note(f"{image.name}: {image.stat().st_size / 1e6:.1f} MB")


# --- Kubernetes ----------------------------------------------------------------------------------------------

RENDER = mt.ROOT / "tools/kubernetes/render"


def rendered(values="{}", check=True):
    """(the manifest's text, its data), by Helm, held against Kubernetes' schemas."""
    python = mt.BUILD / "venv-packages/bin/python"
    if not python.exists():
        raise mt.Skip("no Helm: tools/make-venv packages")
    done = subprocess.run([python, RENDER, "--json", values], capture_output=True, text=True, check=False)
    if not check:
        return done
    mt.check(done.returncode == 0, done.stderr[-2000:])
    return json.loads(done.stdout)


def test_chart():
    """Helm's lint and rendering, Kubernetes' schemas, and what no schema says."""
    text, pod_set = rendered()
    mt.check(text == MANIFEST.read_text(), "tools/kubernetes/daemonset.yaml is not what the chart gives: tools/kubernetes/render")
    version = (mt.ROOT / "VERSION").read_text().strip()
    pod = pod_set["spec"]["template"]["spec"]
    box, = pod["containers"]
    mt.check(box["image"].endswith(f"/memtrace:{version}"), f"{box['image']} of version {version}")
    mt.check({v["name"] for v in pod["volumes"]} == {m["name"] for m in box["volumeMounts"]}, "mounts and volumes")
    unit = test_serve.sandbox.service(mt.ROOT / "tools/serve/memtrace-serve@.service")
    caps = {c.removeprefix("CAP_") for c in unit["CapabilityBoundingSet"][0].split()}
    mt.check(set(box["securityContext"]["capabilities"]["add"]) == caps - {"BPF", "PERFMON"} | {"IPC_LOCK"}, "not the unit's, of which "
             "SYS_ADMIN has two in it; a pod's locked memory is limited")
    mt.check(pod_set["spec"]["selector"]["matchLabels"].items() <= pod_set["spec"]["template"]["metadata"]["labels"].items(), "selector")
    values = {"image": {"repository": "r.example/m", "tag": "x"}, "port": 1234, "args": ["--max-overhead", "2"], "appArmor": "",
              "nodeSelector": {"a": "1"}, "tolerations": [], "podLabels": {"team": "ml"}, "podAnnotations": {"b": "true"},
              "priorityClassName": "p", "runtimeClassName": "nvidia", "seccomp": "Unconfined", "tokenSecret": "t", "resources": {}}
    _, other = rendered(json.dumps(values))
    pod = other["spec"]["template"]["spec"]
    box, = pod["containers"]
    mt.check(box["image"] == "r.example/m:x" and box["args"][-2:] == ["--max-overhead", "2"] and "0.0.0.0:1234" in box["args"] and
             box["ports"][0]["containerPort"] == 1234 and "appArmorProfile" not in box["securityContext"] and
             pod["nodeSelector"] == {"a": "1"} and pod["priorityClassName"] == "p" and pod["runtimeClassName"] == "nvidia" and
             other["spec"]["template"]["metadata"]["labels"]["team"] == "ml" and
             other["spec"]["template"]["metadata"]["annotations"] == {"b": "true"} and
             box["securityContext"]["seccompProfile"] == {"type": "Unconfined"} and pod["volumes"][1]["secret"]["secretName"] == "t",
             f"values are not taken: {other}")
    for wrong in ({"port": "x"}, {"prot": 1}, {"resources": {"limits": {"memory": []}}}, {"tolerations": [{"operator": 7}]}):
        done = rendered(json.dumps(wrong), check=False)
        mt.check(done.returncode != 0 and next(iter(wrong)) in done.stderr, f"{wrong}: {done.returncode} {done.stderr[-500:]}")


def filter_of(caps):
    """The filter of system calls that runtimes set for a container with these capabilities, as OCI has it."""
    spec = json.loads(SECCOMP.read_text())

    def holds(rule):
        said, never = rule.get("includes") or {}, rule.get("excludes") or {}
        return (set(said.get("caps", ())) <= caps and "amd64" in said.get("arches", ["amd64"]) and
                not set(never.get("caps", ())) & caps and "amd64" not in never.get("arches", ()))
    keys = ("names", "action", "args", "errnoRet")
    calls = [{k: rule[k] for k in keys if rule.get(k) not in (None, "")} for rule in spec["syscalls"] if holds(rule)]
    return {"defaultAction": spec["defaultAction"], "defaultErrnoRet": spec.get("defaultErrnoRet", 1),
            "architectures": ["SCMP_ARCH_X86_64"], "syscalls": calls}


def pod_config(config, pod, cgroup, volumes):
    """The runtime's configuration for the pod's container, as kubelet and containerd would make it of the pod's text. The network is
    this machine's, for what a cluster's network gives is not here; locked memory and files are what a careful machine allows."""
    box, = pod["containers"]
    context = box["securityContext"]
    mt.check(pod["hostPID"] and context["capabilities"]["drop"] == ["ALL"] and context["readOnlyRootFilesystem"], f"{context}")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    caps = {f"CAP_{c}" for c in context["capabilities"]["add"]}
    config["process"].update(
        terminal=False, args=[*config["process"]["args"][:1], *box["args"]], noNewPrivileges=False,
        user={"uid": context["runAsUser"], "gid": context["runAsGroup"]},
        capabilities={which: sorted(caps) for which in ("bounding", "effective", "permitted")},
        rlimits=[{"type": "RLIMIT_MEMLOCK", "hard": 65536, "soft": 65536}, {"type": "RLIMIT_NOFILE", "hard": hard, "soft": 1024}])
    config["root"]["readonly"] = True
    config["mounts"] = [m for m in config["mounts"] if m["destination"] != "/sys/fs/cgroup"]
    for mount in box["volumeMounts"]:
        mode = "ro" if mount.get("readOnly") else "rw"
        config["mounts"].append({"destination": mount["mountPath"], "type": "bind", "source": str(volumes[mount["name"]]),
                                 "options": ["rbind", "rprivate", mode]})
    config["linux"]["namespaces"] = [{"type": t} for t in ("mount", "ipc", "uts", "cgroup")]
    config["linux"]["cgroupsPath"] = cgroup
    config["linux"]["resources"]["memory"] = {"limit": int(box["resources"]["limits"]["memory"].removesuffix("Gi")) << 30}
    if SECCOMP.exists():
        config["linux"]["seccomp"] = filter_of(caps)
    return config


def secret(folder):
    """A Secret's volume as kubelet makes it: what is to be read are links."""
    (folder / "..2026").mkdir(parents=True)
    file = folder / "..2026" / "token"
    file.touch(0o400)
    file.write_text(TOKEN)
    (folder / "..data").symlink_to("..2026")
    (folder / "token").symlink_to("..data/token")
    return folder


def test_pod_of_the_chart():
    """The chart's container on a job in another one: it is found, named, counted and told to who has the token, and nobody else."""
    need("umoci", "runc")
    _, pod_set = rendered()
    pod = pod_set["spec"]["template"]["spec"]
    args = pod["containers"][0]["args"]
    args[args.index("0.0.0.0:9464")] = "0.0.0.0:0"
    uid, box_id, path = test_containers.pod()
    name = f"memtrace-{os.getpid()}"
    with mt.scratch() as tmp, contextlib.ExitStack() as stack:
        _, bundle = unpacked(tmp)
        theirs, = stack.enter_context(test_containers.pod_cgroups(path))
        words = test_containers.container(tmp, mt.ROOT, tmp / "at")
        job = stack.enter_context(mt.job("mlp", wrapper=(*test_containers.INTO, theirs, *words, "env", "HOSTNAME=train-0")))
        pid = test_containers.inner(job)
        (tmp / "run").mkdir(mode=0o755)
        config = pod_config(json.loads((bundle / "config.json").read_text()), pod, f"/{name}",
                            {"run": tmp / "run", "token": secret(tmp / "secret")})
        proc = stack.enter_context(running(bundle, config, name))
        s = test_serve.Served(proc)
        s.headers = {"Authorization": f"Bearer {TOKEN}"}
        info = lambda: [dict(k[1:]) for k in s.metrics() if k[0] == "memtrace_process_info" and ("pid", str(pid)) in k]  # noqa: E731
        row, = mt.wait_until(info, "the job", 30, 0.3)
        mt.check({k: row.get(k) for k in ("pod", "pod_uid", "container_id")} == {"pod": "train-0", "pod_uid": uid, "container_id": box_id},
                 f"{row}")
        live = lambda: {k for k, v in s.metrics().items() if k[0] == "memtrace_live_bytes" and v and ("pid", str(pid)) in k}  # noqa: E731
        mt.wait_until(lambda: any(("category", "PARAMETER") in k for k in live()), "its parameters", 30, 0.3)
        s.headers = {}
        mt.check(s.ask("/metrics")[0] == 401, "without the token it answers")
        subprocess.run(["runc", "--root", tmp / "runc", "kill", name, "TERM"], check=True, capture_output=True)
        mt.check(proc.wait(30) in (0, 3), f"its end: {proc.err[-5:]}")
        mt.wait_until(lambda: not mt.probed(pid, mt.NEW), "the probes to go", 5)
        before = mt.steps_of(job)
        mt.wait_until(lambda: mt.steps_of(job) > before, "the job's next steps", 10)
        job.signal(signal.SIGTERM)
