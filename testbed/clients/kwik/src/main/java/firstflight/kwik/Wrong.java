package firstflight.kwik;

/** An invalid argument or request, with a one-sentence message. */
final class Wrong extends Exception {
    private static final long serialVersionUID = 1L;

    Wrong(String message) {
        super(message);
    }
}
