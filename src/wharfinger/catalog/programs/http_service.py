"""An HTTP/1.1 server that renders a document for each request, on one thread.

``GET /document/N`` renders a table of ``--rows`` rows, hashes it for its ``ETag`` and compresses it
where the client takes gzip: about 1.5 ms of work at the default of 600 rows. ``GET /metrics`` is in
Prometheus' format, ``GET /healthz`` answers ``ok``.
"""

import argparse
import hashlib
import sys
import time
import zlib
from bisect import bisect_left

from wharfinger.catalog.programs.serving import Connection, add_address, serve
from wharfinger.catalog.programs.steps import whole

MAX_HEAD_BYTES = 16 * 1024
BUCKETS_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
ROW = "<tr><td>{number}</td><td>{name}</td><td>{price:.2f}</td><td>{check}</td></tr>\n"
PAGE = "<!doctype html>\n<title>{title}</title>\n<table>\n{rows}</table>\n"


def render(number: int, rows: int) -> bytes:
    """One document; the same number gives the same bytes.

    >>> render(1, 1).splitlines()[-2]
    b'<tr><td>7919</td><td>article 7919</td><td>2639.67</td><td>bebe</td></tr>'
    """
    first = number * 7919
    lines = []
    for item in range(first, first + rows):
        name = f"article {item % 99991}"
        check = f"{zlib.crc32(name.encode()) & 0xFFFF:04x}"
        lines.append(ROW.format(number=item, name=name, price=item % 100003 / 3, check=check))
    return PAGE.format(title=f"document {number}", rows="".join(lines)).encode()


class Metrics:
    """Requests and their latencies since the start, as Prometheus reads them."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_SECONDS) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """One request's time in this process."""
        self.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.sum_seconds += seconds

    def text(self) -> str:
        """In the exposition format 0.0.4."""
        name, total = "http_request_seconds", 0
        lines = [f"# TYPE {name} histogram"]
        bounds = [*(f"{bound:g}" for bound in BUCKETS_SECONDS), "+Inf"]
        for bound, count in zip(bounds, self.counts, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        lines += [f"{name}_sum {self.sum_seconds:.6f}", f"{name}_count {total}"]
        lines += ["# TYPE http_requests_total counter", f"http_requests_total {total}", ""]
        return "\n".join(lines)


class HttpConnection(Connection):
    """One client; requests may follow each other without waiting (pipelining)."""

    def __init__(self, rows: int, metrics: Metrics) -> None:
        self._rows = rows
        self._metrics = metrics
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        """Answer every request whose head is whole."""
        self._buffer += data
        while not self.transport.is_closing():
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                if len(head) > MAX_HEAD_BYTES:
                    self._send("431 Request Header Fields Too Large")
                return
            self._buffer = rest
            self._answer(head.decode("latin-1"))

    def _answer(self, head: str) -> None:
        request, *lines = head.split("\r\n")
        method, _, tail = request.partition(" ")
        path, _, version = tail.partition(" ")
        fields = {k.strip().lower(): v.strip() for k, _, v in (x.partition(":") for x in lines)}
        if (
            not version.startswith("HTTP/1.")
            or fields.get("content-length", "0") != "0"
            or "transfer-encoding" in fields
        ):
            self._send("400 Bad Request")
        elif method not in ("GET", "HEAD"):
            self._send("405 Method Not Allowed")
        else:
            said = fields.get("connection", "").lower()
            stays = said != "close" and (version != "HTTP/1.0" or said == "keep-alive")
            self._serve(path, "gzip" in fields.get("accept-encoding", ""), method, stays)

    def _serve(self, path: str, gzip: bool, method: str, stays: bool) -> None:
        began = time.perf_counter()
        status, body, extra = "200 OK", b"", "Content-Type: text/plain"
        name, _, number = path.partition("?")[0].lstrip("/").partition("/")
        is_number = number.isascii() and number.isdigit() and len(number) < 10
        is_document = name == "document" and is_number
        if is_document:
            body = render(int(number), self._rows)
            extra = f'Content-Type: text/html\r\nETag: "{hashlib.sha256(body).hexdigest()[:16]}"'
            if gzip:
                body = zlib.compress(body, 6, 31)
                extra += "\r\nContent-Encoding: gzip"
        elif (name, number) == ("metrics", ""):
            body = self._metrics.text().encode()
            extra += "; version=0.0.4"
        elif (name, number) == ("healthz", ""):
            body = b"ok\n"
        else:
            status = "404 Not Found"
        self._send(status, body, extra, method, stays=stays)
        if is_document:
            self._metrics.observe(time.perf_counter() - began)

    def _send(
        self,
        status: str,
        body: bytes = b"",
        extra: str = "Content-Type: text/plain",
        method: str = "GET",
        *,
        stays: bool = False,
    ) -> None:
        connection = "keep-alive" if stays else "close"
        head = (
            f"HTTP/1.1 {status}\r\n{extra}\r\nConnection: {connection}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.transport.write(head.encode() + (b"" if method == "HEAD" else body))
        if not stays:
            self.transport.close()


def main() -> int:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="http_service", description="Serve documents.")
    add_address(parser)
    parser.add_argument(
        "--rows", type=whole, default=600, metavar="N", help="of a document (default: 600)"
    )
    arguments = parser.parse_args()
    metrics = Metrics()
    return serve(lambda: HttpConnection(arguments.rows, metrics), arguments.host, arguments.port)


if __name__ == "__main__":
    sys.exit(main())
