# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A build backend (PEP 517, PEP 660) of the standard library alone: `pip install tools/python` needs no network.

A wheel is a zip of the package and four lines about it. pyproject.toml is not parsed beyond its version, which
Python 3.8 could not do.
"""
import base64
import hashlib
import io
import pathlib
import re
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
VERSION = re.search(r'^version = "([^"]+)"', (HERE / "pyproject.toml").read_text(), re.M).group(1)
INFO = f"memtrace_ebpf-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: memtrace-ebpf
Version: {VERSION}
Summary: memtrace from Python
License: LGPL-2.1-only OR BSD-2-Clause
Requires-Python: >=3.8
"""
ENTRY_POINTS = "[pytest11]\nmemtrace = memtrace.pytest_plugin\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: memtrace\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def package():
    return sorted((HERE / "memtrace").glob("*.py"))


def write_wheel(folder, files):
    name = f"memtrace_ebpf-{VERSION}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in [*files, (f"{INFO}/METADATA", METADATA.encode()), (f"{INFO}/WHEEL", WHEEL.encode()),
                           (f"{INFO}/entry_points.txt", ENTRY_POINTS.encode())]:
            z.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")
        z.writestr(f"{INFO}/RECORD", "".join(record) + f"{INFO}/RECORD,,\n")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, [(f"memtrace/{p.name}", p.read_bytes()) for p in package()])


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, [("memtrace.pth", f"{HERE}\n".encode())])


def build_sdist(sdist_directory, config_settings=None):
    base = f"memtrace_ebpf-{VERSION}"
    with tarfile.open(pathlib.Path(sdist_directory) / f"{base}.tar.gz", "w:gz") as t:
        for path in [*package(), HERE / "pyproject.toml", HERE / "backend.py", HERE / "README.md"]:
            t.add(path, f"{base}/{path.relative_to(HERE)}")
        info = tarfile.TarInfo(f"{base}/PKG-INFO")
        info.size = len(METADATA)
        t.addfile(info, io.BytesIO(METADATA.encode()))
    return f"{base}.tar.gz"
