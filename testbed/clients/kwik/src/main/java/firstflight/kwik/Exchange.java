package firstflight.kwik;

import java.io.IOException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import tech.kwik.core.QuicClientConnection;
import tech.kwik.core.log.NullLogger;
import tech.kwik.flupke.impl.Http3ClientConnectionImpl;

/** One request on a separate connection; its threads and the connection end with it. */
final class Exchange {
    /** Maximum time to wait for the connection to close after the answer. */
    private static final Duration CLOSING = Duration.ofSeconds(1);

    private final Request request;
    private final Answer answer;

    Exchange(Request request, Answer answer) {
        this.request = request;
        this.answer = answer;
    }

    /** Completes the answer. */
    void run() {
        Path keys = null;
        try {
            String log = System.getenv("SSLKEYLOGFILE");
            // kwik truncates its file of secrets for each connection.
            keys = log == null || log.isEmpty() ? null : Path.of(log + ".kwik");
            connect(keys);
            answer.end = "complete";
        } catch (TimeoutException error) {
            fail("timeout", "timed out");
        } catch (Wrong error) {
            fail("failed", error.getMessage());
        } catch (IOException | RuntimeException error) {
            fail("reset", reason(error));
        } catch (InterruptedException error) {
            fail("failed", "interrupted");
        } finally {
            keep(keys);
        }
    }

    private void fail(String end, String detail) {
        boolean tried = !end.equals("failed");
        answer.end = tried && !answer.isConnected() ? "connect_failed" : end;
        answer.detail = detail;
    }

    private void connect(Path keys)
            throws Wrong, IOException, InterruptedException, TimeoutException {
        QuicClientConnection.Builder builder = QuicClientConnection.newBuilder()
                .uri(request.uri())
                // TLS uses the name in the URI; the connection goes to this address.
                .proxy(request.ip().getHostAddress())
                .applicationProtocol("h3")
                .customTrustManager(Trust.of(request.roots()))
                .connectTimeout(request.patience())
                .maxIdleTimeout(request.patience())
                // The values that flupke sets.
                .maxOpenPeerInitiatedUnidirectionalStreams(3)
                .maxOpenPeerInitiatedBidirectionalStreams(0)
                .logger(new NullLogger());
        if (keys != null) {
            builder.secrets(keys);
        }
        QuicClientConnection connection = builder.build();
        ExecutorService tasks = Executors.newCachedThreadPool();
        try {
            exchange(connection, tasks);
        } finally {
            answer.finished();
            connection.closeAndWait(CLOSING);
            tasks.shutdownNow();
        }
    }

    private void exchange(QuicClientConnection connection, ExecutorService tasks)
            throws Wrong, IOException, InterruptedException, TimeoutException {
        connection.connect();
        answer.connected();
        Http3ClientConnectionImpl http = new Http3ClientConnectionImpl(connection, tasks);
        // Already connected: this only opens the control stream.
        http.connect();
        HttpRequest asked = HttpRequest.newBuilder(request.uri()).header("User-Agent", request.agent()).build();
        CompletableFuture<HttpResponse<Void>> response = new CompletableFuture<>();
        tasks.execute(() -> http.sendAsync(asked, HttpResponse.BodyHandlers.ofByteArrayConsumer(
                part -> answer.bodyBytes += part.map(bytes -> bytes.length).orElse(0)), response));
        long leftUs = TimeUnit.MILLISECONDS.toMicros(request.patience().toMillis()) - answer.elapsedUs();
        try {
            answer.status = response.get(Math.max(leftUs, 0), TimeUnit.MICROSECONDS).statusCode();
        } catch (ExecutionException error) {
            throw new IOException(reason(error.getCause()), error);
        }
    }

    /** Appends the connection's secrets, which decrypt its packets, to the file in SSLKEYLOGFILE. */
    private void keep(Path keys) {
        if (keys == null || !Files.exists(keys)) {
            return;
        }
        try {
            Path log = Path.of(System.getenv("SSLKEYLOGFILE"));
            Files.write(log, Files.readAllBytes(keys), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            Files.delete(keys);
        } catch (IOException error) {
            answer.end = "failed";
            answer.detail = "the secrets cannot be kept: " + reason(error);
        }
    }

    private static String reason(Throwable error) {
        return error.getMessage() == null ? error.getClass().getSimpleName() : error.toString();
    }
}
