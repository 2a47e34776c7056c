package org.apache.iceberg.rest;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import org.apache.iceberg.Files;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.exceptions.RESTException;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;

/**
 * Iceberg's own REST catalog, which its tests use, as a server: {@link RESTCatalogAdapter} behind the HTTP server of the JDK.
 *
 * <p>The package is the adapter's, because its routes are visible only there. The catalog is in memory; clients write the data files.
 */
public final class CatalogServer {
  private final RESTCatalogAdapter adapter;

  private CatalogServer(RESTCatalogAdapter adapter) {
    this.adapter = adapter;
  }

  /** Serves a catalog. Arguments: address, port, and the warehouse in which new tables have their folders. */
  public static void main(String[] args) throws IOException {
    InMemoryCatalog catalog = new InMemoryCatalog();
    catalog.initialize("catalog", Map.of("warehouse", args[2]));
    CatalogServer handler = new CatalogServer(new RESTCatalogAdapter(catalog));
    InetAddress address = InetAddress.getByName(args[0]);
    HttpServer server = HttpServer.create(new InetSocketAddress(address, Integer.parseInt(args[1])), 0);
    server.setExecutor(Executors.newCachedThreadPool());
    server.createContext("/", handler::handle);
    server.start();
    System.out.println("Iceberg REST catalog started");
  }

  private void handle(HttpExchange exchange) throws IOException {
    try (exchange) {
      try {
        answer(exchange);
      } catch (RuntimeException error) {
        error.printStackTrace();
        send(exchange, 500, error(500, error));
      }
    }
  }

  private void answer(HttpExchange exchange) throws IOException {
    HTTPRequest.HTTPMethod method = HTTPRequest.HTTPMethod.valueOf(exchange.getRequestMethod());
    String path = exchange.getRequestURI().getRawPath().substring(1);
    var found = Route.from(method, path);
    if (found == null) {
      send(exchange, 404, error(404, new RESTException("no route for %s %s", method, path)));
      return;
    }
    Route route = found.first();
    Map<String, String> headers = new HashMap<>();
    exchange.getRequestHeaders().forEach((name, values) -> headers.put(name, values.get(0)));
    HTTPRequest request = adapter.buildRequest(
        method, path, parse(exchange.getRequestURI().getRawQuery()), headers, readBody(route, exchange.getRequestBody()));
    ErrorResponse[] error = new ErrorResponse[1];
    try {
      RESTResponse response = adapter.execute(
          request,
          RESTResponse.class,
          refused -> error[0] = refused,
          sent -> sent.forEach(exchange.getResponseHeaders()::set));
      if (response instanceof LoadTableResponse table) {
        writeMetadata(table);
      }
      // Without a body, a loaded table has not changed since the version that the client named.
      send(exchange, response != null ? 200 : route == Route.LOAD_TABLE ? 304 : 204, response);
    } catch (RESTException unhandled) { // The adapter raises it after it reported the error.
      send(exchange, error[0].code(), error[0]);
    }
  }

  private static Object readBody(Route route, InputStream body) throws IOException {
    if (route.requestClass() != null) {
      return RESTObjectMapper.mapper().readValue(body, route.requestClass());
    }
    return parse(new String(body.readAllBytes(), StandardCharsets.UTF_8));
  }

  /** Returns the fields of a query or a form. */
  private static Map<String, String> parse(String text) {
    Map<String, String> fields = new HashMap<>();
    if (text != null && text.contains("=")) {
      for (String field : text.split("&")) {
        String[] parts = field.split("=", 2);
        fields.put(parts[0], URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
      }
    }
    return fields;
  }

  private static ErrorResponse error(int code, Exception error) {
    return ErrorResponse.builder()
        .responseCode(code)
        .withType(error.getClass().getSimpleName())
        .withMessage(String.valueOf(error.getMessage()))
        .build();
  }

  private static void send(HttpExchange exchange, int code, Object content) throws IOException {
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    byte[] body = content == null ? new byte[0] : RESTObjectMapper.mapper().writeValueAsBytes(content);
    boolean isEmpty = body.length == 0 || exchange.getRequestMethod().equals("HEAD");
    exchange.sendResponseHeaders(code, isEmpty ? -1 : body.length);
    if (!isEmpty) {
      exchange.getResponseBody().write(body);
    }
  }

  /** Writes the metadata of a local table to its file, which clients read for metadata tables. The catalog has it in memory. */
  private static synchronized void writeMetadata(LoadTableResponse table) {
    String location = table.metadataLocation();
    File file = location != null && location.startsWith("file:") ? new File(URI.create(location)) : null;
    if (file != null && !file.exists()) {
      TableMetadataParser.write(table.tableMetadata(), Files.localOutput(file));
    }
  }
}
