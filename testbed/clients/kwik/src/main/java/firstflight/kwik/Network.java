package firstflight.kwik;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.List;

/** A network in CIDR notation: the first `bits` bits of its address. */
record Network(byte[] address, int bits) {
    private static final String ARGUMENT = "allow-net=";

    /** The networks of firstflight/egress/special_networks.csv that contain no machines of third parties. */
    private static final List<Network> ALLOWABLE = List.of(
            range("127.0.0.0", 8),
            range("::1", 128),
            range("10.0.0.0", 8),
            range("172.16.0.0", 12),
            range("192.168.0.0", 16),
            range("fc00::", 7),
            range("198.18.0.0", 15),
            range("2001:db8::", 32));

    /** Parses an argument `allow-net=CIDR`. */
    static Network of(String argument) throws Wrong {
        if (!argument.startsWith(ARGUMENT)) {
            throw new Wrong(argument + ": expected allow-net=CIDR; --help shows an example");
        }
        String[] parts = argument.substring(ARGUMENT.length()).split("/", -1);
        if (parts.length != 2 || !parts[1].matches("[0-9]{1,3}")) {
            throw new Wrong(argument + ": it is not ADDRESS/LENGTH");
        }
        byte[] address;
        try {
            address = literal(parts[0]).getAddress();
        } catch (Wrong error) {
            throw new Wrong(argument + ": " + error.getMessage());
        }
        int bits = Integer.parseInt(parts[1]);
        if (bits > 8 * address.length) {
            throw new Wrong(argument + ": an address has only " + 8 * address.length + " bits");
        }
        Network made = new Network(address, bits);
        if (ALLOWABLE.stream().noneMatch(one -> one.contains(made))) {
            throw new Wrong(
                    argument + ": it must lie inside loopback, RFC 1918, fc00::/7, 198.18.0.0/15 or 2001:db8::/32");
        }
        return made;
    }

    private static Network range(String text, int bits) {
        try {
            return new Network(literal(text).getAddress(), bits);
        } catch (Wrong error) {
            throw new IllegalStateException(error);
        }
    }

    /** Parses an IP address; never resolves a name. */
    static InetAddress literal(String text) throws Wrong {
        boolean four = text.matches("[0-9]{1,3}(\\.[0-9]{1,3}){3}");
        if (!four && !text.matches("[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")) {
            throw new Wrong("\"" + text + "\" is no IP address");
        }
        try {
            // Text of only digits and dots, or with a colon, is parsed without a lookup.
            return InetAddress.getByName(text);
        } catch (UnknownHostException error) {
            throw new Wrong("\"" + text + "\" is no IP address");
        }
    }

    private boolean contains(Network inner) {
        return inner.bits >= bits && contains(inner.address);
    }

    boolean contains(InetAddress one) {
        return contains(one.getAddress());
    }

    private boolean contains(byte[] other) {
        if (other.length != address.length) {
            return false;
        }
        for (int bit = 0; bit < bits; bit++) {
            int mask = 0x80 >> bit % 8;
            if (((address[bit / 8] ^ other[bit / 8]) & mask) != 0) {
                return false;
            }
        }
        return true;
    }
}
