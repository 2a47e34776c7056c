package headrace.msk;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.HexFormat;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verification of AWS Signature Version 4 for a GET request with the signature in its query string. */
final class SignatureV4 {
    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);
    private static final int LONGEST_SECONDS = 900;

    private SignatureV4() {}

    /** Returns the key that signed the decoded {@code query} for {@code host}; SecurityException has the reason of a rejection. */
    static Key verify(String host, Map<String, String> query, Keys keys) throws GeneralSecurityException {
        require("AWS4-HMAC-SHA256".equals(query.get("X-Amz-Algorithm")), "unsupported algorithm");
        require("kafka-cluster:Connect".equals(query.get("Action")), "wrong action");
        require("host".equals(query.get("X-Amz-SignedHeaders")), "wrong signed headers");
        String[] scope = query.getOrDefault("X-Amz-Credential", "").split("/");
        require(scope.length == 5 && scope[3].equals("kafka-cluster") && scope[4].equals("aws4_request"), "wrong credential scope");

        Key key = keys.find(scope[0]);
        require(key != null, "unknown key " + scope[0]);
        require(Objects.equals(key.token(), query.get("X-Amz-Security-Token")), "wrong session token");
        require(key.expires() > System.currentTimeMillis(), "expired session token");

        String time = query.getOrDefault("X-Amz-Date", "");
        int seconds = Integer.parseInt(query.getOrDefault("X-Amz-Expires", "0"));
        Instant signed = Instant.from(TIME.parse(time));
        require(seconds <= LONGEST_SECONDS && Instant.now().isBefore(signed.plusSeconds(seconds)), "expired signature");
        require(time.startsWith(scope[1]), "wrong date in the credential scope");

        Map<String, String> sorted = new TreeMap<>();
        query.forEach((name, value) -> sorted.put(encode(name), encode(value)));
        sorted.remove("X-Amz-Signature");
        String canonical = sorted.entrySet().stream().map(Object::toString).collect(Collectors.joining("&"));
        String request = "GET\n/\n" + canonical + "\nhost:" + host + "\n\nhost\n" + hash("");
        String scopeText = String.join("/", scope[1], scope[2], scope[3], scope[4]);
        byte[] derived = ("AWS4" + key.secret()).getBytes(StandardCharsets.UTF_8);
        for (String part : scopeText.split("/")) {
            derived = sign(derived, part);
        }
        String expected = hex(sign(derived, "AWS4-HMAC-SHA256\n" + time + "\n" + scopeText + "\n" + hash(request)));
        require(MessageDigest.isEqual(bytes(expected), bytes(query.getOrDefault("X-Amz-Signature", ""))), "wrong signature");
        return key;
    }

    private static void require(boolean condition, String reason) {
        if (!condition) {
            throw new SecurityException(reason);
        }
    }

    private static byte[] sign(byte[] key, String text) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(bytes(text));
    }

    private static String hash(String text) throws GeneralSecurityException {
        return hex(MessageDigest.getInstance("SHA-256").digest(bytes(text)));
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20").replace("*", "%2A").replace("%7E", "~");
    }
}
