package headrace.msk;

import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/** Broker side of OAUTHBEARER on MSK: a token is a Base64-encoded presigned URL of {@code kafka.REGION.amazonaws.com}. */
public final class TokenValidator implements AuthenticateCallbackHandler {
    private static final long TOKEN_MS = 900_000;
    private Keys keys;

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> jaas) {
        keys = Keys.of(jaas);
    }

    @Override
    public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (!(callback instanceof OAuthBearerValidatorCallback)) {
                throw new UnsupportedCallbackException(callback);
            }
            validate((OAuthBearerValidatorCallback) callback);
        }
    }

    private void validate(OAuthBearerValidatorCallback callback) {
        try {
            URI url = new URI(new String(Base64.getUrlDecoder().decode(callback.tokenValue()), StandardCharsets.UTF_8));
            if (!url.getHost().matches("kafka\\.[a-z0-9-]+\\.amazonaws\\.com")) {
                throw new SecurityException("wrong host");
            }
            Map<String, String> query = new HashMap<>();
            for (String part : url.getRawQuery().split("&")) {
                String[] sides = part.split("=", 2);
                query.put(decode(sides[0]), decode(sides[1]));
            }
            query.remove("User-Agent");
            Key key = SignatureV4.verify(url.getHost(), query, keys);
            System.out.println("headrace: OAUTHBEARER accepted " + key.principal());
            long now = System.currentTimeMillis();
            callback.token(new Token(callback.tokenValue(), key.principal(), now, Math.min(key.expires(), now + TOKEN_MS)));
        } catch (Exception error) {
            System.out.println("headrace: OAUTHBEARER rejected the login: " + error.getMessage());
            callback.error("Access denied", null, null);
        }
    }

    private static String decode(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    @Override
    public void close() {}

    private record Token(String value, String principalName, Long startTimeMs, long lifetimeMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }
    }
}
