import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.common.utils.Bytes;

/**
 * Windows of readings for each tier on Kafka Streams, exactly once: count, min, max, sum, first and last of each metric,
 * put out when the window has closed. It has no percentiles and no corrections, takes a repeated reading twice, and days
 * are those of UTC. Environment: BOOTSTRAP, APP, STATE_DIR, PREFIX, COMMIT_MS, THREADS.
 */
public final class RollupsPeer {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration GRACE = Duration.ofMinutes(61);
    static final Map<String, Duration> TIERS = new LinkedHashMap<>();

    static {
        TIERS.put("1m", Duration.ofMinutes(1));
        TIERS.put("15m", Duration.ofMinutes(15));
        TIERS.put("1h", Duration.ofHours(1));
        TIERS.put("1d", Duration.ofDays(1));
    }

    private static JsonNode read(byte[] bytes) {
        try {
            return JSON.readTree(bytes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static ObjectNode add(JsonNode reading, ObjectNode bucket) {
        long at = reading.get("at").asLong();
        reading.get("metrics").fields().forEachRemaining(metric -> {
            double value = metric.getValue().asDouble();
            ObjectNode sums = (ObjectNode) bucket.get(metric.getKey());
            if (sums == null) {
                bucket.putObject(metric.getKey()).put("count", 1).put("min", value).put("max", value).put("sum", value)
                    .put("first", value).put("last", value).put("firstAt", at).put("lastAt", at);
                return;
            }
            sums.put("count", sums.get("count").asLong() + 1).put("sum", sums.get("sum").asDouble() + value);
            sums.put("min", Math.min(sums.get("min").asDouble(), value)).put("max", Math.max(sums.get("max").asDouble(), value));
            if (at < sums.get("firstAt").asLong()) sums.put("first", value).put("firstAt", at);
            if (at >= sums.get("lastAt").asLong()) sums.put("last", value).put("lastAt", at);
        });
        return bucket;
    }

    private static Topology topology(String prefix) {
        Serde<JsonNode> json = Serdes.serdeFrom((topic, node) -> node.toString().getBytes(), (topic, bytes) -> bytes == null ? null : read(bytes));
        Serde<ObjectNode> buckets = Serdes.serdeFrom((topic, node) -> node.toString().getBytes(), (topic, bytes) -> bytes == null ? null : (ObjectNode) read(bytes));
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, JsonNode> readings = builder
            .stream(prefix + "readings", Consumed.with(Serdes.String(), json).withTimestampExtractor((record, before) -> ((JsonNode) record.value()).get("at").asLong()))
            .groupByKey(Grouped.with(Serdes.String(), json));
        TIERS.forEach((name, length) -> readings
            .windowedBy(TimeWindows.ofSizeAndGrace(length, GRACE))
            .emitStrategy(EmitStrategy.onWindowClose())
            .aggregate(JSON::createObjectNode, (device, reading, bucket) -> add(reading, bucket),
                Materialized.<String, ObjectNode, WindowStore<Bytes, byte[]>>as("tier-" + name).withKeySerde(Serdes.String()).withValueSerde(buckets)
                    .withRetention(length.plus(GRACE)))
            .toStream((window, bucket) -> window.key() + "/" + window.window().start())
            .to(prefix + "rollups-" + name, Produced.with(Serdes.String(), buckets)));
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
