import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

/**
 * The join of a reconciliation (docs/reconciliation.md) on Kafka Streams: an outer join of announced and arrived items,
 * exactly once, with its windows in RocksDB. An item waits for its other side until stream time is WINDOW_MS + GRACE_MS
 * past its event time.
 *
 * The items' Kafka key is their id, which spares Kafka Streams a shuffle; REPARTITION=true joins by the source and id in
 * the value, as the service does. Environment: BOOTSTRAP, APP, STATE_DIR, PREFIX, WINDOW_MS, GRACE_MS, REPARTITION,
 * COMMIT_MS, THREADS.
 */
public final class OuterJoinPeer {
    static final ObjectMapper JSON = new ObjectMapper();

    /** An item as it was read. It is parsed once, when something of it is asked for. */
    static final class Item {
        final byte[] bytes;
        private JsonNode value;

        Item(byte[] bytes) { this.bytes = bytes; }

        String text(String field) { return value().path(field).asText(); }

        long time() {
            JsonNode time = value().path("eventTime");
            return time.isTextual() ? Instant.parse(time.asText()).toEpochMilli() : time.asLong();
        }

        boolean is(String store, String role) { return text("store").equals(store) && text("role").equals(role); }

        private JsonNode value() {
            if (value == null) value = read(bytes);
            return value;
        }
    }

    private static JsonNode read(byte[] bytes) {
        try {
            return JSON.readTree(bytes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static byte[] result(Item expected, Item actual) {
        Item item = expected == null ? actual : expected;
        ObjectNode result = JSON.createObjectNode();
        result.put("source", item.text("source")).put("eventId", item.text("eventId")).put("eventTime", item.time());
        result.put("kind", actual == null ? "MISSING" : expected == null ? "UNEXPECTED" : "MATCHED");
        try {
            return JSON.writeValueAsBytes(result);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Topology topology(String prefix) {
        Serde<Item> items = Serdes.serdeFrom((topic, item) -> item.bytes, (topic, bytes) -> new Item(bytes));
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, Item> asItems = Consumed.with(Serdes.String(), items).withTimestampExtractor((r, before) -> ((Item) r.value()).time());
        KStream<String, Item> announced = builder.stream(prefix + "announced", asItems).filter((k, i) -> i.is("shop", "PRODUCER_EXPECTED"));
        KStream<String, Item> arrived = builder.stream(prefix + "arrived", asItems).filter((k, i) -> i.is("lake", "ACTUAL"));
        if (Boolean.parseBoolean(System.getenv("REPARTITION"))) {
            announced = announced.selectKey((k, i) -> i.text("source") + ' ' + i.text("eventId"));
            arrived = arrived.selectKey((k, i) -> i.text("source") + ' ' + i.text("eventId"));
        }
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(millis("WINDOW_MS"), millis("GRACE_MS"));
        announced.outerJoin(arrived, OuterJoinPeer::result, windows, StreamJoined.with(Serdes.String(), items, items).withName("join").withStoreName("join"))
            .to(prefix + "joined", Produced.with(Serdes.String(), Serdes.ByteArray()));
        return builder.build();
    }

    private static Duration millis(String name) { return Duration.ofMillis(Long.parseLong(System.getenv(name))); }

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
