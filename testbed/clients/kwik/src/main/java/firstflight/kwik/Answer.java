package firstflight.kwik;

import java.time.Instant;
import java.util.concurrent.TimeUnit;
import org.json.JSONObject;

/** The result of a request. Times in microseconds from its start; null: did not happen. */
final class Answer {
    String end = "failed";
    String detail;
    Integer status;
    long bodyBytes;
    private Instant startedAt;
    private long begun;
    private Long tlsUs;
    private Long durationUs;

    void begin() {
        startedAt = Instant.now();
        begun = System.nanoTime();
    }

    void connected() {
        tlsUs = elapsedUs();
    }

    boolean isConnected() {
        return tlsUs != null;
    }

    /** Records the end of the exchange. Closing the connection takes longer. */
    void finished() {
        durationUs = elapsedUs();
    }

    long elapsedUs() {
        return TimeUnit.NANOSECONDS.toMicros(System.nanoTime() - begun);
    }

    String line() {
        JSONObject line = new JSONObject();
        line.put("end", end);
        line.put("detail", orNull(detail));
        line.put("started_at", orNull(startedAt == null ? null : nanoseconds(startedAt)));
        line.put("tls_us", orNull(tlsUs));
        line.put("duration_us", orNull(durationUs));
        line.put("status", orNull(status));
        line.put("body_bytes", bodyBytes);
        return line.toString();
    }

    private static long nanoseconds(Instant time) {
        return TimeUnit.SECONDS.toNanos(time.getEpochSecond()) + time.getNano();
    }

    private static Object orNull(Object value) {
        return value == null ? JSONObject.NULL : value;
    }
}
