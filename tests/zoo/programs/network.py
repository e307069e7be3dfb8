"""A TCP server with clients inside, UDP and Unix datagrams."""

import hashlib
import socket
import sys
import threading
import time

COUNT = 400 * int((*sys.argv, "1")[1])


def serve(server: socket.socket, out: list[str]) -> None:
    connection, _ = server.accept()
    whole = hashlib.sha256()
    with connection, connection.makefile("rwb") as stream:
        for line in stream:
            whole.update(line)
            stream.write(line[::-1].strip() + b"\n")
            stream.flush()
    out.append(whole.hexdigest())


sums: list[str] = []
clients = []
accepting = socket.create_server(("127.0.0.1", 0))
for _ in range(3):
    thread = threading.Thread(target=serve, args=(accepting, sums))
    thread.start()
    clients.append((socket.create_connection(accepting.getsockname()), thread))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
udp.connect(udp.getsockname())
left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
streams = [client.makefile("rwb") for client, _ in clients]
good = True
for number in range(COUNT):
    for place, stream in enumerate(streams):
        stream.write(f"{place} line {number}\n".encode())
        stream.flush()
    udp.send(f"u{number}".encode())
    left.send(f"d{number}".encode())
    for place, stream in enumerate(streams):
        good &= stream.readline().strip()[::-1] == f"{place} line {number}".encode()
    good &= udp.recv(100) == f"u{number}".encode() and right.recv(100) == f"d{number}".encode()
    time.sleep(0.005)
for stream, (client, _) in zip(streams, clients, strict=True):
    stream.close()
    client.close()
for _, thread in clients:  # whichever of them had accepted which client
    thread.join()
print("network", good, sorted(sums))
