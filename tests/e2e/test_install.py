# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""make install into an empty folder, make deb into an empty root: all files are there, readable by everybody, and work from there."""
import re
import shutil
import subprocess

import mt

LANDING = {"deb"}


def run(*argv, **kw):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=mt.guard(300), check=False, **kw)
    mt.check(done.returncode == 0, f"{argv}: {done.returncode} {done.stderr[-1000:]}")
    return done.stdout


def test_into_a_folder():
    with mt.scratch() as tmp:
        mt.ok(mt.make("--no-print-directory", "install", f"DESTDIR={tmp}", "PREFIX=/usr"))
        usr = tmp / "usr"
        program, share = usr / "bin/memtrace", usr / "share"
        mt.check(run(program, "version") == mt.ok(mt.memtrace("version")).stdout, "the program")
        for shell, path in (("bash", "bash-completion/completions/memtrace"), ("zsh", "zsh/site-functions/_memtrace"),
                            ("fish", "fish/vendor_completions.d/memtrace.fish")):
            mt.check((share / path).read_text() == mt.ok(mt.memtrace("completion", shell)).stdout, path)
        mt.check((share / "man/man1/memtrace.1").read_text() == mt.ok(mt.memtrace("--man")).stdout, "the man page")
        for tree, where in (("docs/schema", "memtrace/schema"), ("tools/serve", "memtrace/serve"), ("tools/kubernetes/chart", "memtrace/kubernetes/chart"), ("LICENSES", "doc/memtrace/LICENSES")):
            names = {p.name for p in (mt.ROOT / tree).iterdir()}
            mt.check(names == {p.name for p in (share / where).iterdir()}, f"{where}: {names}")
        here = {str(p.relative_to(mt.ROOT / "tools/python")) for p in (mt.ROOT / "tools/python").rglob("*")
                if p.is_file() and "__pycache__" not in p.parts}
        there = {str(p.relative_to(share / "memtrace/python")) for p in (share / "memtrace/python").rglob("*") if p.is_file()}
        mt.check(here == there, f"Python: {here ^ there}")
        run(mt.PYTHON, "-c", "import memtrace; print(memtrace.__file__)", cwd="/",
            env={"PYTHONPATH": str(share / "memtrace/python"), "PYTHONDONTWRITEBYTECODE": "1"})
        docs = share / "doc/memtrace"
        links = {(path, x) for path in docs.rglob("*.md") for x in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text())}
        missing = [(str(path.relative_to(docs)), x) for path, x in links if not (path.parent / x).exists()]
        mt.check(len(links) > 150 and not missing, f"{len(links)} links, to nowhere: {missing}")
        mt.check((usr / "include/memtrace/usdt.h").exists(), "the header")
        for path in usr.rglob("*"):
            mode = path.stat().st_mode
            wanted = 0o755 if path.is_dir() or path == program else 0o644
            mt.check(mode & 0o777 == wanted, f"{path}: {mode & 0o777:o}")


def depends_of(deb):
    """{package: least version or None}."""
    fields = [re.match(r"(\S+)(?: \(>= ([^)]+)\))?$", d.strip()) for d in run("dpkg-deb", "-f", deb, "Depends").split(",")]
    mt.check(all(fields), f"dependencies that can be read: {fields}")
    return {f[1]: f[2] for f in fields}


def check_depends(deb, program):
    """Every library that the program maps is of a package that it depends on, and this machine has these."""
    depends = depends_of(deb)
    for name, least in depends.items():
        has = run("dpkg-query", "-W", "-f", "${Version}", name)
        if least:
            run("dpkg", "--compare-versions", has, "ge", least)
    needs = re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-d", program))
    mt.check(needs, "libraries")
    for lib in needs:
        owners = {line.split(":")[0] for line in run("dpkg", "-S", f"*/{lib}").splitlines() if not line.startswith("diversion")}
        mt.check(owners & set(depends), f"{lib} is of {owners}, and it depends on {sorted(depends)}")
    mt.check(any(name.startswith("libmicrohttpd") for name in depends) and "ncurses-base" in depends, f"what it opens: {depends}")


def test_deb():
    if not all(shutil.which(x) for x in ("dpkg", "dpkg-deb", "dpkg-shlibdeps")):
        raise mt.Skip("no dpkg here")
    deb = mt.ROOT / mt.ok(mt.make("--no-print-directory", "deb")).stdout.strip().splitlines()[-1]
    with mt.scratch() as root:
        for folder in ("updates", "info"):
            (root / "var/lib/dpkg" / folder).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        # its libraries are this machine's: that these are there is looked at below
        run("dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless", "--log=/dev/null", "--install", deb)
        mt.check(run("dpkg-query", f"--root={root}", "-W", "-f", "${Status}", "memtrace") == "install ok installed", "its status")
        mt.check(run("dpkg", f"--root={root}", "--verify", "memtrace") == "", "files are as the package says")
        program = root / "usr/bin/memtrace"
        check_depends(deb, program)
        mt.check(run(program, "--version") == mt.ok(mt.memtrace("--version")).stdout, "--version")
        own = subprocess.run([program, "doctor"], capture_output=True, text=True, check=False)
        here = mt.memtrace("doctor")
        mt.check(own.returncode == here.returncode and "btf" in own.stdout.lower(), f"doctor: {own.returncode} {own.stderr}")
        man = subprocess.run(["gzip", "-dc", root / "usr/share/man/man1/memtrace.1.gz"], capture_output=True, text=True, check=True)
        mt.check(man.stdout == mt.ok(mt.memtrace("--man")).stdout, "the man page")
        for path in (root / "usr").rglob("*"):
            wanted = 0o755 if path.is_dir() or path == program else 0o644
            mt.check(path.is_symlink() or path.stat().st_mode & 0o7777 == wanted, f"{path}: {path.stat().st_mode:o}")
            mt.check(path.lstat().st_uid == 0, f"{path} is root's")
        run("dpkg", f"--root={root}", "--force-script-chrootless", "--log=/dev/null", "--purge", "memtrace")
        mt.check(not program.exists(), "it goes again")
