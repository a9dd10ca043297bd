import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

/**
 * Orders priced by a GlobalKTable on Kafka Streams, exactly once. A GlobalKTable has no time: an order meets the price
 * of the moment. Environment: BOOTSTRAP, APP, STATE_DIR, PREFIX, COMMIT_MS, THREADS.
 */
public final class GlobalTablePeer {
    static final ObjectMapper JSON = new ObjectMapper();

    private static JsonNode read(byte[] bytes) {
        try {
            return JSON.readTree(bytes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static byte[] charged(JsonNode order, JsonNode price) {
        ObjectNode charged = JSON.createObjectNode();
        charged.put("order", order.path("order").asText()).put("cents", price == null ? -1 : price.path("cents").asLong());
        try {
            return JSON.writeValueAsBytes(charged);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Topology topology(String prefix) {
        Serde<JsonNode> json = Serdes.serdeFrom((topic, node) -> node.toString().getBytes(), (topic, bytes) -> bytes == null ? null : read(bytes));
        StreamsBuilder builder = new StreamsBuilder();
        GlobalKTable<String, JsonNode> prices = builder.globalTable(prefix + "prices", Consumed.with(Serdes.String(), json));
        KStream<String, JsonNode> orders = builder.stream(prefix + "orders", Consumed.with(Serdes.String(), json));
        orders.leftJoin(prices, (key, order) -> order.path("sku").asText(), GlobalTablePeer::charged)
            .to(prefix + "charged", Produced.with(Serdes.String(), Serdes.ByteArray()));
        return builder.build();
    }

    public static void main(String[] args) throws Exception {
        Properties c = new Properties();
        c.put(StreamsConfig.APPLICATION_ID_CONFIG, System.getenv("APP"));
        c.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("BOOTSTRAP"));
        c.put(StreamsConfig.STATE_DIR_CONFIG, System.getenv("STATE_DIR"));
        c.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        c.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, System.getenv().getOrDefault("THREADS", "2"));
        c.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, System.getenv().getOrDefault("COMMIT_MS", "1000"));
        c.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        c.put("auto.offset.reset", "earliest");
        KafkaStreams streams = new KafkaStreams(topology(System.getenv().getOrDefault("PREFIX", "")), c);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        Thread.currentThread().join();
    }
}
