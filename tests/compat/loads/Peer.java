import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.StringJoiner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;

/** Java both ways: `Peer.java serve PORT ECHO_PORT` and `Peer.java load PORT ECHO_PORT`, which prints JSON. */
public class Peer {
    static final int[] SIZES = {1, 999, 1001, 64_000, 1_000_000, 10_000_000};

    static byte[] body(int size) {
        byte[] bytes = new byte[size];
        new Random(size).nextBytes(bytes);
        return bytes;
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[1]);
        int echoPort = Integer.parseInt(arguments[2]);
        if (arguments[0].equals("serve")) serve(port, echoPort);
        else load(port, echoPort);
    }

    static void serve(int port, int echoPort) throws Exception {
        Thread echo = new Thread(() -> echo(echoPort));
        echo.start();
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 256);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", Peer::answer);
        server.start();
    }

    /** GET /SIZE; a POST comes back. */
    static void answer(HttpExchange exchange) {
        try (exchange; InputStream in = exchange.getRequestBody()) {
            byte[] bytes = in.readAllBytes();
            if (exchange.getRequestMethod().equals("GET"))
                bytes = body(Integer.parseInt(exchange.getRequestURI().getPath().substring(1)));
            exchange.sendResponseHeaders(200, bytes.length);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(bytes);
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    /** A selector's loop: what comes is written back, non-blocking, as it finds room. */
    static void echo(int port) {
        try (Selector selector = Selector.open(); ServerSocketChannel listener = ServerSocketChannel.open()) {
            listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port)).configureBlocking(false);
            listener.register(selector, SelectionKey.OP_ACCEPT);
            while (true) {
                selector.select();
                for (SelectionKey key : selector.selectedKeys()) {
                    if (key.isAcceptable()) {
                        SocketChannel made = listener.accept();
                        made.configureBlocking(false);
                        made.register(selector, SelectionKey.OP_READ, ByteBuffer.allocate(1 << 18));
                        continue;
                    }
                    SocketChannel channel = (SocketChannel) key.channel();
                    ByteBuffer buffer = (ByteBuffer) key.attachment();
                    boolean ended = false;
                    if (key.isReadable() && buffer.hasRemaining()) ended = channel.read(buffer) < 0;
                    buffer.flip();
                    channel.write(buffer);
                    buffer.compact();
                    if (ended && buffer.position() == 0) {
                        channel.close();
                        continue;
                    }
                    int wanted = buffer.position() > 0 ? SelectionKey.OP_WRITE : 0;
                    if (buffer.hasRemaining() && !ended) wanted |= SelectionKey.OP_READ;
                    key.interestOps(wanted);
                }
                selector.selectedKeys().clear();
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    static void load(int port, int echoPort) throws Exception {
        StringJoiner results = new StringJoiner(", ");
        long moved = 0;
        long began = System.nanoTime();
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        for (int size : SIZES) {
            byte[] wanted = body(size);
            int times = size > 100_000 ? 3 : 40;
            moved += 4L * size * times;
            results.add(told(size, "by HTTP", times, gets(client, port, size, times, wanted)));
            results.add(told(size, "echoed by HTTP", times, posts(client, port, times, wanted)));
            results.add(told(size, "echoed by a stream", times, streams(echoPort, times, wanted)));
            results.add(told(size, "by transferTo, echoed", times, transfers(echoPort, times, wanted)));
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.println("{\"results\": {" + results + "}, \"rate\": " + moved / seconds + "}");
        System.exit(0);
    }

    static String told(int size, String name, int times, int right) {
        String word = right == times ? "passed" : "failed: " + (times - right) + " of " + times + " wrong";
        return "\"" + size + " bytes " + name + "\": \"" + word + "\"";
    }

    static int gets(HttpClient client, int port, int size, int times, byte[] wanted) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/" + size)).build();
        return together(client, request, times, wanted);
    }

    static int posts(HttpClient client, int port, int times, byte[] wanted) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/"))
            .POST(HttpRequest.BodyPublishers.ofByteArray(wanted)).build();
        return together(client, request, times, wanted);
    }

    static int together(HttpClient client, HttpRequest request, int times, byte[] wanted) throws Exception {
        List<CompletableFuture<HttpResponse<byte[]>>> answers = new ArrayList<>();
        for (int i = 0; i < times; i++) answers.add(client.sendAsync(request, HttpResponse.BodyHandlers.ofByteArray()));
        int right = 0;
        for (CompletableFuture<HttpResponse<byte[]>> answer : answers)
            if (Arrays.equals(answer.get().body(), wanted)) right++;
        return right;
    }

    /** A blocking socket; a second thread reads what comes back. */
    static int streams(int port, int times, byte[] wanted) throws Exception {
        int right = 0;
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            for (int i = 0; i < times; i++) {
                CompletableFuture<byte[]> got = CompletableFuture.supplyAsync(() -> read(socket, wanted.length));
                socket.getOutputStream().write(wanted);
                if (Arrays.equals(got.get(), wanted)) right++;
            }
        }
        return right;
    }

    /** A file by FileChannel.transferTo, which is sendfile. */
    static int transfers(int port, int times, byte[] wanted) throws Exception {
        Path path = Files.createTempFile("peer", null);
        Files.write(path, wanted);
        int right = 0;
        try (SocketChannel channel = SocketChannel.open(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
             FileChannel file = FileChannel.open(path)) {
            for (int i = 0; i < times; i++) {
                CompletableFuture<byte[]> got = CompletableFuture.supplyAsync(() -> read(channel, wanted.length));
                for (long at = 0; at < wanted.length; ) at += file.transferTo(at, wanted.length - at, channel);
                if (Arrays.equals(got.get(), wanted)) right++;
            }
        } finally {
            Files.delete(path);
        }
        return right;
    }

    static byte[] read(Socket socket, int size) {
        try {
            return socket.getInputStream().readNBytes(size);
        } catch (Exception error) {
            return new byte[0];
        }
    }

    static byte[] read(SocketChannel channel, int size) {
        ByteBuffer buffer = ByteBuffer.allocate(size);
        try {
            while (buffer.hasRemaining() && channel.read(buffer) >= 0) { }
        } catch (Exception error) {
            return new byte[0];
        }
        return buffer.array();
    }
}
