package firstflight.kwik;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.json.JSONException;
import org.json.JSONObject;
import tech.kwik.core.KwikVersion;

/**
 * The testbed's kwik client: reads a request per line, writes an answer per line (downloader/clients/contract.py).
 */
public final class Main {
    private static final String NAME = "firstflight-kwik-client";
    private static final String VERSION = "0.1.0";
    private static final String HELP = """
            Sends HTTP/3 requests by kwik and flupke, each on a connection of its own: a request a line in, an answer a line out.

            Usage: NAME allow-net=CIDR [allow-net=CIDR...]

            Example: NAME allow-net=127.0.0.0/8 < requests.jsonl
            """.replace("NAME", NAME);

    private Main() {
    }

    /** Answers the requests on standard input. Exit status 2: an argument or a line is invalid. */
    public static void main(String[] arguments) {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        int status = 0;
        try {
            run(arguments, out);
        } catch (Wrong | IOException error) {
            System.err.println(NAME + ": " + error.getMessage());
            status = 2;
        }
        // Non-daemon threads of kwik would keep the program running.
        System.exit(status);
    }

    private static void run(String[] arguments, PrintStream out) throws Wrong, IOException {
        String first = arguments.length == 0 ? "" : arguments[0];
        if (first.equals("--help") || first.equals("-h")) {
            out.print(HELP);
            return;
        }
        if (first.equals("--version") || first.equals("-V")) {
            out.println(NAME + " " + VERSION);
            return;
        }
        List<Network> networks = new ArrayList<>();
        for (String argument : arguments) {
            networks.add(Network.of(argument));
        }
        out.println(new JSONObject().put("ready", "kwik/" + KwikVersion.getVersion()));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answered(request(line), networks).line());
        }
    }

    private static Request request(String line) throws Wrong {
        try {
            return Request.of(line);
        } catch (JSONException | Wrong error) {
            throw new Wrong(JSONObject.quote(line) + " is no request: " + error.getMessage());
        }
    }

    /** Sends the request, but only to an address in one of the networks. */
    private static Answer answered(Request request, List<Network> networks) {
        Answer answer = new Answer();
        if (networks.stream().noneMatch(one -> one.contains(request.ip()))) {
            answer.end = "blocked";
            answer.detail = request.ip().getHostAddress() + " is in no network of allow-net";
            return answer;
        }
        answer.begin();
        new Exchange(request, answer).run();
        return answer;
    }
}
