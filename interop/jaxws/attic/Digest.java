package attic;

import java.io.IOException;
import java.io.InputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** What tells whether octets arrived as they were sent. */
final class Digest {
    private Digest() {}

    /** "COUNT SHA-256" of what a stream has. */
    static String of(InputStream in) throws IOException {
        try (in) {
            MessageDigest sha = MessageDigest.getInstance("SHA-256");
            byte[] piece = new byte[1 << 16];
            long count = 0;
            for (int n; (n = in.read(piece)) > 0; count += n) {
                sha.update(piece, 0, n);
            }
            StringBuilder hex = new StringBuilder();
            for (byte b : sha.digest()) {
                hex.append(String.format("%02x", b));
            }
            return count + " " + hex;
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
