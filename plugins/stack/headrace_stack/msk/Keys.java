package headrace.msk;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import javax.security.auth.login.AppConfigurationEntry;

/** Issued access keys: a file with one tab-separated line per key (id, secret, token, expiry, principal). */
record Keys(Path file) {
    static Keys of(List<AppConfigurationEntry> jaas) {
        return new Keys(Path.of((String) jaas.get(0).getOptions().get("keys")));
    }

    /** Returns a key, or null for an unknown ID. Reads the file at each login because tests issue and revoke keys. */
    Key find(String id) {
        try {
            for (String line : Files.readAllLines(file)) {
                String[] parts = line.split("\t", -1);
                if (parts[0].equals(id)) {
                    String token = parts[2].isEmpty() ? null : parts[2];
                    return new Key(parts[1], token, parts[3].isEmpty() ? Long.MAX_VALUE : Long.parseLong(parts[3]), parts[4]);
                }
            }
            return null;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}

/** Access key. {@code token} is null for a long-term key; {@code expires} is in milliseconds since the epoch. */
record Key(String secret, String token, long expires, String principal) {}
