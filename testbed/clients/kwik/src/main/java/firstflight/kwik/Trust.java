package firstflight.kwik;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;

/** Verifies a server's chain up to the certificates of a PEM file, as TLS 1.3 requires. */
final class Trust implements X509TrustManager {
    /** In TLS 1.3, cipher suites do not determine the type of a certificate's key (RFC 8446, section 4.4.2.2). */
    private static final String ANY = "UNKNOWN";

    private final X509TrustManager pkix;

    private Trust(X509TrustManager pkix) {
        this.pkix = pkix;
    }

    /** Trusts the certificates in a file. Wrong if it is not readable or contains no certificate. */
    static Trust of(String roots) throws Wrong {
        try (InputStream file = Files.newInputStream(Path.of(roots))) {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            for (Certificate one : CertificateFactory.getInstance("X.509").generateCertificates(file)) {
                store.setCertificateEntry("root-" + store.size(), one);
            }
            if (store.size() == 0) {
                throw new Wrong(roots + ": it has no certificate");
            }
            TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
            factory.init(store);
            return new Trust((X509TrustManager) factory.getTrustManagers()[0]);
        } catch (IOException | GeneralSecurityException error) {
            throw new Wrong(roots + ": " + error);
        }
    }

    /** kwik passes the type RSA; a certificate would then need to permit key encipherment, as in TLS 1.2. */
    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type) throws CertificateException {
        pkix.checkServerTrusted(chain, ANY);
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type) throws CertificateException {
        throw new CertificateException("this is a client: it trusts no other one");
    }

    @Override
    public X509Certificate[] getAcceptedIssuers() {
        return pkix.getAcceptedIssuers();
    }
}
