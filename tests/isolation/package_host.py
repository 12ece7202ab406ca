"""Usage: package_host.py FOLDER

What a host of packages is to pip, npm and git, on 127.0.0.1: an index of Python packages and a registry of npm packages over
HTTP, each with one package `atoll-sample` that brings a program (`pip-sample`, `npm-sample`), and a git repository `sample.git`
over HTTPS with a certificate for `localhost` (FOLDER/cert.pem); below `/private/` the same for requests with a key. Prints "ports
HTTP HTTPS" when it serves, until it is killed.
"""

import base64
import hashlib
import http.server
import io
import json
import pathlib
import ssl
import subprocess
import sys
import tarfile
import threading
import zipfile

FOLDER = pathlib.Path(sys.argv[1])
VERSION = "1.0.0"


def wheel():
    files = {
        "atoll_sample.py": "def main():\n    print('sample of pip')\n",
        f"atoll_sample-{VERSION}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: atoll-sample\nVersion: {VERSION}\n",
        f"atoll_sample-{VERSION}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"atoll_sample-{VERSION}.dist-info/entry_points.txt": "[console_scripts]\npip-sample = atoll_sample:main\n",
    }
    record = f"atoll_sample-{VERSION}.dist-info/RECORD"
    files[record] = "".join(f"{name},,\n" for name in [*files, record])
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return made.getvalue()


def npm_package():
    manifest = {"name": "atoll-sample", "version": VERSION, "bin": {"npm-sample": "sample.js"}}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in (("package.json", json.dumps(manifest)),
                           ("sample.js", "#!/usr/bin/env node\nconsole.log('sample of npm');\n")):
            entry = tarfile.TarInfo("package/" + name)
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return manifest, made.getvalue()


def git(*arguments):
    subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main", *arguments],
                   cwd=FOLDER, check=True, capture_output=True)


def make_repository():
    git("init", "work")
    (FOLDER / "work/README").write_text("sample of git\n")
    git("-C", "work", "add", "README")
    git("-C", "work", "commit", "-m", "Sample")
    git("clone", "--bare", "work", "sample.git")
    git("-C", "sample.git", "update-server-info")


def serve(pages):
    class Handler(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __init__(self, *arguments):
            super().__init__(*arguments, directory=FOLDER)

        def do_GET(self):
            if self.path.startswith("/private/"):
                if self.headers["Authorization"] != "Bearer key-of-sample":
                    self.send_error(401)
                    return
                self.path = self.path.removeprefix("/private")
            page = pages.get(self.path)
            if page is None:
                super().do_GET()
                return
            kind, body = page
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def main():
    pages = {}
    plain, secure = serve(pages), serve({})
    manifest, package = npm_package()
    file = f"atoll_sample-{VERSION}-py3-none-any.whl"
    dist = {"tarball": f"http://localhost:{plain.server_port}/npm/sample.tgz",
            "integrity": "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()}
    pages |= {
        "/simple/atoll-sample/": ("text/html", f'<!DOCTYPE html><a href="/files/{file}">{file}</a>'.encode()),
        "/files/" + file: ("application/zip", wheel()),
        "/npm/atoll-sample": ("application/json", json.dumps(
            {"name": "atoll-sample", "dist-tags": {"latest": VERSION}, "versions": {VERSION: manifest | {"dist": dist}}}).encode()),
        "/npm/sample.tgz": ("application/octet-stream", package),
    }
    make_repository()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
                   cwd=FOLDER, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "cert.pem", FOLDER / "key.pem")
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    for server in (plain, secure):
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever).start()
    print("ports", plain.server_port, secure.server_port, flush=True)


main()
