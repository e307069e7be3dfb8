"""asyncio: timers, streams, child processes, an eventfd under epoll, and cancellations."""

import asyncio
import os
import sys

LONGER = int((*sys.argv, "1")[1])
TICKS = 150 * LONGER


async def ticker(out: list[int]) -> None:
    for number in range(TICKS):
        await asyncio.sleep(0.01)
        out.append(number)


async def children(out: list[str]) -> None:
    for number in range(12 * LONGER):
        child = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            f"read line; sleep 0.05; echo {number} $line; exit {number}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        told, _ = await child.communicate(b"asked\n")
        out.append(f"{told.decode().strip()} {child.returncode}")


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()


async def client(path: str, name: str, out: list[str]) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    for number in range(200 * LONGER):
        writer.write(f"{name} {number}\n".encode())
        out.append((await reader.readline()).decode().strip())
        await asyncio.sleep(0.005)
    writer.close()


async def counted(total: list[int]) -> None:
    loop, event = asyncio.get_running_loop(), os.eventfd(0, os.EFD_NONBLOCK)
    loop.add_reader(event, lambda: total.append(os.eventfd_read(event)))
    for _ in range(200 * LONGER):
        os.eventfd_write(event, 1)
        await asyncio.sleep(0.005)
    loop.remove_reader(event)


async def main() -> None:
    ticks: list[int] = []
    told: list[str] = []
    echoed: dict[str, list[str]] = {name: [] for name in "abc"}
    total: list[int] = []
    server = await asyncio.start_unix_server(echo, "server.sock")
    late = asyncio.create_task(asyncio.sleep(1000))
    await asyncio.gather(
        ticker(ticks),
        children(told),
        counted(total),
        *(client("server.sock", name, out) for name, out in echoed.items()),
    )
    late.cancel()
    server.close()
    good = all(
        out == [f"{name.upper()} {n}" for n in range(200 * LONGER)] for name, out in echoed.items()
    )
    print("events", len(ticks), told, sum(total), good, late.cancelling())


asyncio.run(main())
