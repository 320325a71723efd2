"""A load generator of one connection: python3 client.py redis|memcached|http PORT RATE.

Asks RATE times a second, whether or not the answers before came in time, and prints a line a
second. Needs nothing but the standard library, so that everybody's Python can run it.
"""

import socket
import sys
import time

ASKED = {
    "redis": (b"*1\r\n$4\r\nPING\r\n", b"\r\n"),
    "memcached": (b"get key\r\n", b"END\r\n"),
    "http": (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", b"hello\n"),
}


def main() -> None:
    (request, end), port, rate = ASKED[sys.argv[1]], int(sys.argv[2]), float(sys.argv[3])
    connection = socket.create_connection(("127.0.0.1", port), 5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    due = time.monotonic()
    while True:
        began, took = time.monotonic(), []
        while time.monotonic() - began < 1:
            time.sleep(max(0.0, due - time.monotonic()))
            connection.sendall(request)
            answer = b""
            while not answer.endswith(end):
                received = connection.recv(65536)
                if not received:
                    sys.exit("the service has closed the connection")
                answer += received
            took.append(time.monotonic() - due)
            due += 1 / rate
        throughput = len(took) / (time.monotonic() - began)
        p99_ms = 1000 * sorted(took)[int(0.99 * len(took))]
        print(f"rps={throughput:.1f} p99={p99_ms:.3f}ms", flush=True)


if __name__ == "__main__":
    main()
