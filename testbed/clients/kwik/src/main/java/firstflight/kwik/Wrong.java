package firstflight.kwik;

/** What is wrong with an argument or a request, in one sentence. */
final class Wrong extends Exception {
    private static final long serialVersionUID = 1L;

    Wrong(String message) {
        super(message);
    }
}
