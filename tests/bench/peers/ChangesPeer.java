import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Change events of students, courses and enrolments as foreign-key joins on Kafka Streams, exactly once, with the tables
 * in RocksDB. It knows no transactions: what it puts out depends on what arrives first, a link whose student is not there
 * yet is silent, and each change of a student or course comes once for each of its links.
 *
 * Environment: BOOTSTRAP, APP, STATE_DIR, PREFIX, COMMIT_MS, THREADS.
 */
public final class ChangesPeer {
    static final ObjectMapper JSON = new ObjectMapper();

    private static JsonNode read(byte[] bytes) {
        try {
            return JSON.readTree(bytes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static byte[] write(JsonNode value) {
        try {
            return JSON.writeValueAsBytes(value);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The row after a change; null if it is deleted. */
    private static byte[] after(byte[] event) {
        if (event == null) return null;
        JsonNode row = read(event).path("after");
        return row.isObject() ? write(row) : null;
    }

    private static String key(byte[] row, String column) { return "{\"id\": " + read(row).path(column).asLong() + "}"; }

    private static byte[] with(byte[] one, String name, byte[] other) {
        ObjectNode joined = (ObjectNode) read(one);
        joined.set(name, read(other));
        return write(joined);
    }

    private static KTable<String, byte[]> table(StreamsBuilder builder, String topic, String name) {
        return builder.stream(topic, Consumed.with(Serdes.String(), Serdes.ByteArray())).mapValues(ChangesPeer::after)
            .toTable(Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(Serdes.String()).withValueSerde(Serdes.ByteArray()));
    }

    private static Topology topology(String prefix) {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, byte[]> students = table(builder, prefix + "uni.public.student", "students");
        KTable<String, byte[]> courses = table(builder, prefix + "uni.public.course", "courses");
        KTable<String, byte[]> enrolments = table(builder, prefix + "uni.public.enrolment", "enrolments");
        Materialized<String, byte[], KeyValueStore<Bytes, byte[]>> kept = Materialized.with(Serdes.String(), Serdes.ByteArray());
        enrolments.join(students, row -> key(row, "student_id"), (row, student) -> with(row, "student", student), kept)
            .join(courses, row -> key(row, "course_id"), (row, course) -> with(row, "course", course), kept)
            .toStream().to(prefix + "joined", Produced.with(Serdes.String(), Serdes.ByteArray()));
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
