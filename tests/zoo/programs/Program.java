// A JVM: threads, collections that are collected, compiled loops, a file and a process.
import java.io.*;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;

public class Program {
    static long mix(long seed, int rounds) {
        long x = seed;
        for (int i = 0; i < rounds; i++) { x ^= x << 13; x ^= x >>> 7; x ^= x << 17; x += i; }
        return x;
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> futures = new ArrayList<>();
        for (int i = 1; i <= 40; i++) {
            final long seed = i * 7919L;
            futures.add(pool.submit(() -> mix(seed, 20_000_000)));
        }
        Map<Integer, byte[]> held = new TreeMap<>();
        long garbage = 0;
        try (FileWriter log = new FileWriter("java.log", true)) {
            for (int i = 0; i < 200; i++) {
                held.put(i, new byte[50_000 + i]);
                for (int j = 0; j < 200; j++) garbage += new byte[5_000].length;
                log.write("line " + i + "\n");
                log.flush();
                Thread.sleep(8);
            }
        }
        long sum = garbage;
        for (Future<Long> future : futures) sum += future.get();
        pool.shutdown();
        for (byte[] block : held.values()) sum += block.length;
        byte[] log = Files.readAllBytes(Path.of("java.log"));
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(log);
        Process process = new ProcessBuilder("sh", "-c", "exit 6").start();
        System.out.println("java " + sum + " " + Arrays.hashCode(digest) + " " + process.waitFor());
    }
}
