"""A web application in the usual form: worker processes, a database, a template.

Each worker answers one request at a time on a connection of its own, and asks SQLite for what
it shows. ``GET /document/N`` is the sales of a few cities. A known program (``catalog.listing``).
"""

import argparse
import html
import os
import signal
import socket
import socketserver
import sqlite3
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

QUERY = (
    "select city, count(*), sum(amount) from customer join purchase "
    "on purchase.customer = customer.id where purchase.rowid between ?1 and ?1 + 400 "
    "group by city order by 3"
)
ROW = "<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n"


def page(database: sqlite3.Connection, number: int) -> bytes:
    """One page; the same number gives the same bytes."""
    rows = database.execute(QUERY, (number % 100 * 150,)).fetchall()
    body = "".join(ROW.format(html.escape(city), count, total) for city, count, total in rows)
    return f"<!doctype html>\n<title>{number}</title>\n<table>\n{body}</table>\n".encode()


class Handler(BaseHTTPRequestHandler):
    """Answers ``GET /document/N``."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # Head and body in one packet: else each answer waits for an acknowledgement.
    database: sqlite3.Connection

    def do_GET(self) -> None:
        """Answer with a page, or that there is none."""
        name = self.path.rpartition("/")[2]
        if not name.isdecimal():
            self.send_error(404)
            return
        body = page(self.database, int(name))
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Requests are not logged: the disk is not what is measured here."""


class Worker(socketserver.ThreadingMixIn, HTTPServer):
    """Serves on a socket that listens already; a thread for each connection."""

    daemon_threads = True

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(listening.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening


def serve(listening: socket.socket, database: Path) -> None:
    """One worker; returns never."""
    address = f"{database.absolute().as_uri()}?mode=ro&immutable=1"
    Handler.database = sqlite3.connect(address, uri=True, check_same_thread=False)
    Worker(listening).serve_forever()


def main(argv: Sequence[str] | None = None) -> None:
    """Listen, start the workers, end with them."""
    parser = argparse.ArgumentParser(prog="wharfinger.catalog.programs.web_application")
    parser.add_argument("port", type=int)
    parser.add_argument("database", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args(argv)
    listening = socket.create_server(("127.0.0.1", arguments.port), backlog=64)
    workers = []
    for _ in range(arguments.workers):
        worker = os.fork()
        if worker == 0:
            serve(listening, arguments.database)
            os._exit(1)
        workers.append(worker)
    listening.close()
    _end_together(workers)


def _end_together(workers: list[int]) -> None:
    def end(status: int) -> None:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        sys.exit(status)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: end(128 + number))
    ended, _ = os.wait()
    workers.remove(ended)
    end(1)


if __name__ == "__main__":
    main()
