package firstflight.kwik;

import java.net.InetAddress;
import java.net.URI;
import java.time.Duration;
import org.json.JSONObject;

/** The fields of a request that this client uses; `roots` is a PEM file with the trusted roots. */
record Request(String host, InetAddress ip, int port, String path, String agent, Duration patience, String roots) {

    /** Parses a line of the contract. JSONException or Wrong if it is invalid. */
    static Request of(String line) throws Wrong {
        JSONObject given = new JSONObject(line);
        InetAddress ip = Network.literal(given.getString("ip"));
        double seconds = given.getDouble("timeout_s");
        // kwik takes times in whole milliseconds.
        if (!(seconds >= 0.001 && seconds <= 86_400)) {
            throw new Wrong("timeout_s: " + seconds + " is not between 0.001 and 86400");
        }
        if (!given.getBoolean("verify")) {
            throw new Wrong("this client always verifies: leave `verify` true");
        }
        int port = given.getInt("port");
        if (port < 1 || port > 65_535) {
            throw new Wrong("port: " + port + " is not between 1 and 65535");
        }
        return new Request(given.getString("host"), ip, port, given.getString("path"), given.getString("user_agent"),
                Duration.ofMillis((long) (seconds * 1000)), given.getString("roots"));
    }

    /** Returns the URI; Wrong if the host or path is not valid in a URI. */
    URI uri() throws Wrong {
        try {
            return URI.create("https://" + host + ":" + port + path);
        } catch (IllegalArgumentException error) {
            throw new Wrong("the request cannot be sent: " + error.getMessage());
        }
    }
}
