package headrace.msk;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import javax.security.auth.login.AppConfigurationEntry;

/** The keys that the tests have issued: a file of lines of id, secret, token, end and principal, with tabs between. */
record Keys(Path file) {
    static Keys of(List<AppConfigurationEntry> jaas) {
        return new Keys(Path.of((String) jaas.get(0).getOptions().get("keys")));
    }

    /** Read at each login, for keys come and go; null for one that is not there. */
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

/** A key: token is null for one that lasts; expires is in milliseconds since 1970. */
record Key(String secret, String token, long expires, String principal) {}
