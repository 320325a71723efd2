"""Services, under the load generator of ``wharfinger.catalog.programs.load`` in a closed loop.

None of them is one that the demo runs. Files that are asked for are ``document/0`` and so on.
"""

from wharfinger.catalog.program import MEBIBYTE, Category, Program

DOCUMENTS = "document"
FILES = (
    # Head and body in one packet: else each answer would wait for an acknowledgement.
    "import sys, http.server as h; H = h.SimpleHTTPRequestHandler; H.wbufsize = 1 << 20; "
    "H.protocol_version = 'HTTP/1.1'; H.log_message = lambda *words: None; "
    "h.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()"
)
NGINX = "sed s/PORT/$1/ nginx.conf >own.conf && exec nginx -p . -c own.conf -e stderr"
_LOAD = (
    *(
        "{python}",
        "-P",
        "-m",
        "wharfinger.catalog.programs.load",
        "--port",
        "{port}",
        "--connections",
        "4",
    ),
    *("--every", "0.2", "--window", "0.4", "--percentile", "99", "--keys", "100"),
)
HTTP_LOAD = (*_LOAD, "--protocol", "http")
REDIS_LOAD = (*_LOAD, "--protocol", "redis", "--write-every", "3", "--value-bytes", "512")

SERVICES: tuple[Program, ...] = (
    Program(
        "python-http-files",
        "python-http-files",
        Category.SERVICE,
        ("{python}", "-I", "-c", FILES, "{port}"),
        ("http.server", "SimpleHTTPRequestHandler"),
        {},
        (DOCUMENTS,),
        load=HTTP_LOAD,
    ),
    Program(
        "python-web-application",
        "python-web-application",
        Category.SERVICE,
        (
            "{python}",
            "-P",
            "-m",
            "wharfinger.catalog.programs.web_application",
            "{port}",
            "orders.db",
        ),
        ("wharfinger.catalog.programs.web_application",),
        {},
        ("orders.db",),
        threads=2,
        load=HTTP_LOAD,
    ),
    Program(
        "node-http",
        "node-http",
        Category.SERVICE,
        ("node", "server.js", "{port}"),
        ("node", "server.js"),
        {"node": "nodejs"},
        ("server.js",),
        memory_bytes=512 * MEBIBYTE,
        load=HTTP_LOAD,
    ),
    Program(
        "nginx-2-workers",
        "nginx",
        Category.SERVICE,
        ("sh", "-c", NGINX, "nginx", "{port}"),
        ("nginx",),
        {"nginx": "nginx-light", "sh": "dash", "sed": "sed"},
        (DOCUMENTS, "nginx.conf"),
        threads=2,
        load=HTTP_LOAD,
    ),
    Program(
        "redis",
        "redis",
        Category.SERVICE,
        (
            *("redis-server", "--port", "{port}", "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no"),
        ),
        ("redis-server",),
        {"redis-server": "redis-server"},
        load=REDIS_LOAD,
    ),
)
