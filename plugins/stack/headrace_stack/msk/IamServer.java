package headrace.msk;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.security.Provider;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import javax.security.auth.Subject;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.spi.LoginModule;
import javax.security.sasl.SaslServer;
import javax.security.sasl.SaslServerFactory;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SecurityProviderCreator;

/** Broker side of the SASL mechanism AWS_MSK_IAM: one signed request, one response. */
public final class IamServer implements SaslServer {
    static final String MECHANISM = "AWS_MSK_IAM";
    private static final String VERSION = "2020_10_22";
    /** Signed fields of a request: the name in the message to the name in the signed query. */
    private static final Map<String, String> SIGNED = new HashMap<>();

    static {
        for (String name : List.of("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Security-Token", "Signature")) {
            SIGNED.put("x-amz-" + name.toLowerCase(), "X-Amz-" + name);
        }
        SIGNED.put("action", "Action");
    }

    private final Keys keys;
    private Key key;

    private IamServer(Keys keys) {
        this.keys = keys;
    }

    @Override
    public byte[] evaluateResponse(byte[] response) {
        String id = UUID.randomUUID().toString();
        try {
            Map<?, ?> message = new ObjectMapper().readValue(response, Map.class);
            if (!VERSION.equals(message.get("version"))) {
                throw new SecurityException("unsupported version");
            }
            Map<String, String> query = new HashMap<>();
            message.forEach((name, value) -> {
                if (SIGNED.containsKey(name)) {
                    query.put(SIGNED.get(name), (String) value);
                }
            });
            key = SignatureV4.verify((String) message.get("host"), query, keys);
            System.out.println("headrace: " + MECHANISM + " accepted " + key.principal());
            return ("{\"version\":\"" + VERSION + "\",\"request-id\":\"" + id + "\"}").getBytes(StandardCharsets.UTF_8);
        } catch (Exception error) {
            // MSK sends the client no reason.
            System.out.println("headrace: " + MECHANISM + " rejected the login: " + error.getMessage());
            throw new SaslAuthenticationException("[" + id + "]: Access denied");
        }
    }

    @Override
    public String getMechanismName() {
        return MECHANISM;
    }

    @Override
    public boolean isComplete() {
        return key != null;
    }

    @Override
    public String getAuthorizationID() {
        return key.principal();
    }

    /** Returns the expiry of the credentials to Kafka: the connection has to re-authenticate before it. */
    @Override
    public Object getNegotiatedProperty(String name) {
        return name.equals("CREDENTIAL.LIFETIME.MS") && key.expires() != Long.MAX_VALUE ? key.expires() : null;
    }

    @Override
    public byte[] unwrap(byte[] incoming, int offset, int length) {
        throw new IllegalStateException();
    }

    @Override
    public byte[] wrap(byte[] outgoing, int offset, int length) {
        throw new IllegalStateException();
    }

    @Override
    public void dispose() {}

    /** Registers the mechanism with Java: the broker's setting {@code security.providers}. */
    public static final class Creator implements SecurityProviderCreator {
        @Override
        public Provider getProvider() {
            return new IamProvider();
        }
    }

    private static final class IamProvider extends Provider {
        IamProvider() {
            super("HeadraceMsk", "1", "AWS_MSK_IAM for tests");
            put("SaslServerFactory." + MECHANISM, Factory.class.getName());
        }
    }

    public static final class Factory implements SaslServerFactory {
        @Override
        public SaslServer createSaslServer(
                String mechanism, String protocol, String server, Map<String, ?> properties, CallbackHandler handler) {
            return new IamServer(((Handler) handler).keys);
        }

        @Override
        public String[] getMechanismNames(Map<String, ?> properties) {
            return new String[] {MECHANISM};
        }
    }

    /** Holds the file of the issued keys. */
    public static final class Handler implements AuthenticateCallbackHandler {
        private Keys keys;

        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> jaas) {
            keys = Keys.of(jaas);
        }

        @Override
        public void handle(Callback[] callbacks) {}

        @Override
        public void close() {}
    }

    /** Login module without a function: the broker requires one for each mechanism. */
    public static final class Login implements LoginModule {
        @Override
        public void initialize(Subject subject, CallbackHandler handler, Map<String, ?> state, Map<String, ?> options) {}

        @Override
        public boolean login() {
            return true;
        }

        @Override
        public boolean commit() {
            return true;
        }

        @Override
        public boolean abort() {
            return true;
        }

        @Override
        public boolean logout() {
            return true;
        }
    }
}
