"""redis-server under load: three clients over TCP and a Unix socket, an append-only file, and a
snapshot that a forked child writes."""

import hashlib
import shutil
import socket
import subprocess
import threading
import time

ROUNDS, BATCH = 150, 20


def start() -> subprocess.Popen[bytes]:
    # Debian's redis-tools has the server's program under the name of its checker.
    path = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    return subprocess.Popen(
        [
            *("redis-server", "--bind", "127.0.0.1", "--port", "16379"),
            *("--unixsocket", "redis.sock", "--appendonly", "yes", "--save", ""),
            *("--auto-aof-rewrite-percentage", "0", "--logfile", "redis.log"),
        ],
        executable=path,
    )


class Client:
    """Of the protocol as much as is needed."""

    def __init__(self, family: int, address: object) -> None:
        self.socket = socket.socket(family)
        self.socket.connect(address)
        self.stream = self.socket.makefile("rb")

    def ask(self, *commands: tuple[str, ...]) -> list[object]:
        lines = [
            f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            for words in commands
        ]
        self.socket.sendall("".join(lines).encode())
        return [self.reply() for _ in commands]

    def reply(self) -> object:
        line = self.stream.readline().strip().decode()
        kind, rest = line[:1], line[1:]
        if kind == ":":
            return int(rest)
        if kind == "$":
            return None if rest == "-1" else self.stream.read(int(rest) + 2)[:-2].decode()
        if kind == "*":
            return [self.reply() for _ in range(int(rest))]
        if kind == "-":
            raise RuntimeError(rest)
        return rest

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


def connected(family: int, address: object) -> Client:
    while True:
        try:
            return Client(family, address)
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.02)


def work(name: str, client: Client, good: list[bool]) -> None:
    for number in range(ROUNDS):
        keys = [f"{name}:{number * BATCH + place}" for place in range(BATCH)]
        client.ask(*(("SET", key, key * 400) for key in keys))
        client.ask(("INCRBY", "total", str(number)), ("RPUSH", name, str(number)))
        good.append(client.ask(*(("GET", key) for key in keys)) == [key * 400 for key in keys])
        time.sleep(0.015)
    client.close()


server = start()
clients = [
    connected(socket.AF_UNIX, "redis.sock"),
    connected(socket.AF_INET, ("127.0.0.1", 16379)),
    connected(socket.AF_INET, ("127.0.0.1", 16379)),
]
first = connected(socket.AF_INET, ("127.0.0.1", 16379))
results: list[bool] = []
threads = [
    threading.Thread(target=work, args=(name, client, results))
    for name, client in zip("abc", clients, strict=True)
]
for thread in threads:
    thread.start()
time.sleep(0.5)
first.ask(("BGSAVE",))
for thread in threads:
    thread.join()
total, size = first.ask(("GET", "total"), ("DBSIZE",))
lists = [first.ask(("LRANGE", name, "0", "-1"))[0] for name in "abc"]
whole = hashlib.sha256()
for name in "abc":
    for number in range(ROUNDS * BATCH):
        whole.update(first.ask(("GET", f"{name}:{number}"))[0].encode())
print("store", all(results), len(results), total, size, whole.hexdigest())
print(all(values == [str(number) for number in range(ROUNDS)] for values in lists))
server.terminate()
print("ended", server.wait())
