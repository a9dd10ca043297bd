import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;

/**
 * The stock ledger (docs/stock.md) on Kafka Streams' Processor API: one Processor, RocksDB stores, exactly once, JSON.
 *
 * Order time is the stream time of the task's partition, as the bound is 0. What is due before a command's order time
 * runs before it. Environment: BOOTSTRAP, APP, STATE_DIR, PREFIX, COMMIT_MS, THREADS.
 */
public final class StockPeer {
    static final long COMMAND_RETENTION = 7 * 86_400_000L, RESERVATION_RETENTION = 30 * 86_400_000L, MOST = 1_000_000_000L;
    static final ObjectMapper JSON = new ObjectMapper();

    static final class Refused extends Exception {
        final ArrayNode shortLines;

        Refused(String reason, ArrayNode shortLines) {
            super(reason, null, false, false);
            this.shortLines = shortLines;
        }

        Refused(String reason) { this(reason, JSON.createArrayNode()); }
    }

    static final class Ledger implements Processor<String, byte[], String, byte[]> {
        private ProcessorContext<String, byte[]> context;
        private KeyValueStore<String, byte[]> skus, reservations, ended, holds, known, due;
        private long now = Long.MIN_VALUE, number;
        private String pool;

        @Override public void init(ProcessorContext<String, byte[]> c) {
            context = c;
            skus = c.getStateStore("skus");                  // pool, sku -> onHand, reserved, changedAt, reserves
            reservations = c.getStateStore("reservations");  // pool, id -> orderId, lines, expiresAt
            ended = c.getStateStore("ended");                // pool, id -> status, endedAt
            holds = c.getStateStore("holds");                // pool, sku, number -> id
            known = c.getStateStore("known");                // pool, commandId -> content, reply, at
            due = c.getStateStore("due");                    // time, kind, number -> pool, id
        }

        @Override public void process(Record<String, byte[]> r) {
            ObjectNode e = (ObjectNode) read(r.value());
            if (e.path("type").asText().equals("Heartbeat")) {
                advance(Math.max(now, time(e.get("processedAt"))));
                return;
            }
            long at = time(e.remove("time"));
            advance(Math.max(now, at));
            pool = e.get("pool").asText();
            String id = e.get("commandId").asText(), content = e.toString();
            JsonNode answered = read(known.get(key(pool, id)));
            if (answered != null && now < answered.get("at").asLong() + COMMAND_RETENTION) {
                boolean same = answered.get("content").asText().equals(content);
                reply(same ? (ObjectNode) answered.get("reply") : rejected(e, new Refused("ID_CONFLICT")));
                return;
            }
            ObjectNode reply;
            try {
                reply = carryOut(e, at);
            } catch (Refused refused) {
                reply = rejected(e, refused);
            }
            ObjectNode kept = JSON.createObjectNode().put("content", content).put("at", now);
            kept.set("reply", reply);
            known.put(key(pool, id), bytes(kept));
            schedule(now + COMMAND_RETENTION, 'k', key(pool, id));
            reply(reply);
        }

        private void advance(long to) {
            if (to > now && now != Long.MIN_VALUE) {
                List<KeyValue<String, byte[]>> fired = new ArrayList<>();
                // what is due before `now` has run: a range from the start would read the tombstones of all of it
                try (KeyValueIterator<String, byte[]> it = due.range(timeKey(now), timeKey(to))) {
                    it.forEachRemaining(fired::add);
                }
                for (KeyValue<String, byte[]> timer : fired) {
                    due.delete(timer.key);
                    fire(timer.key.charAt(16), new String(timer.value, StandardCharsets.UTF_8), Long.parseUnsignedLong(timer.key.substring(0, 16), 16));
                }
            }
            now = to;
        }

        private void fire(char kind, String key, long coded) {
            if (kind == 'k') {
                JsonNode its = read(known.get(key));
                if (its != null && decode(coded) >= its.get("at").asLong() + COMMAND_RETENTION) known.delete(key);
            } else if (kind == 'e') {
                JsonNode its = read(ended.get(key));
                if (its != null && decode(coded) >= its.get("at").asLong() + RESERVATION_RETENTION) ended.delete(key);
            } else {
                JsonNode its = read(reservations.get(key));
                if (its == null || its.get("expiresAt").asLong() != decode(coded)) return;
                pool = its.get("pool").asText();
                now = decode(coded);
                end(its, "Expired", "EXPIRED", null, null);
            }
        }

        private ObjectNode carryOut(ObjectNode e, long at) throws Refused {
            switch (e.get("type").asText()) {
                case "Reserve" -> { return reserve(e); }
                case "Confirm" -> confirm(e);
                case "Cancel" -> end(open(e), "Cancelled", "CANCELLED", null, null);
                case "Adjust" -> adjust(e);
                default -> count(e, at);
            }
            return accepted(e, JSON.createArrayNode(), JSON.createArrayNode());
        }

        private ObjectNode reserve(ObjectNode e) throws Refused {
            Map<String, Long> asked = new LinkedHashMap<>();
            for (JsonNode line : e.get("lines")) {
                if (line.get("quantity").asLong() <= 0) throw new Refused("INVALID");
                asked.merge(line.get("sku").asText(), line.get("quantity").asLong(), Long::sum);
            }
            long ttl = e.get("ttlMs").asLong();
            boolean tooMuch = asked.values().stream().anyMatch(q -> q > MOST);
            if (asked.isEmpty() || asked.size() > 1_000 || tooMuch || ttl <= 0 || ttl > 100_000_000_000L) throw new Refused("INVALID");
            String id = e.get("reservationId").asText();
            if (reservations.get(key(pool, id)) != null || endedStatus(id) != null) throw new Refused("RESERVATION_EXISTS");
            ArrayNode granted = JSON.createArrayNode(), missing = JSON.createArrayNode();
            for (Map.Entry<String, Long> line : asked.entrySet()) {
                long[] sku = sku(line.getKey());
                long available = sku[0] - sku[1];
                if (available < line.getValue()) {
                    missing.addObject().put("sku", line.getKey()).put("quantity", line.getValue()).put("available", available);
                }
                if (available > 0) granted.addObject().put("sku", line.getKey()).put("quantity", Math.min(available, line.getValue()));
            }
            boolean all = !e.path("policy").asText("ALL").equals("PARTIAL");
            if (granted.isEmpty() || (all && !missing.isEmpty())) throw new Refused("INSUFFICIENT", missing);
            ObjectNode held = JSON.createObjectNode().put("pool", pool).put("id", id).put("expiresAt", now + ttl);
            held.set("orderId", e.get("orderId"));
            ArrayNode lines = held.putArray("lines"), told = JSON.createArrayNode();
            for (JsonNode line : granted) {
                String name = line.get("sku").asText();
                long[] sku = sku(name);
                sku[1] += line.get("quantity").asLong();
                sku[3]++;
                put(name, sku);
                holds.put(key(pool, name) + String.format("%016d", sku[3]), id.getBytes(StandardCharsets.UTF_8));
                lines.addObject().put("sku", name).put("quantity", line.get("quantity").asLong()).put("number", sku[3]);
                tell(told, name, line.get("quantity").asLong(), sku);
            }
            reservations.put(key(pool, id), bytes(held));
            schedule(now + ttl, 'r', key(pool, id));
            event("Reserved", held, null, told);
            return accepted(e, granted, missing);
        }

        private void confirm(ObjectNode e) throws Refused {
            JsonNode quantities = e.get("quantities");
            boolean all = quantities == null || quantities.isNull();
            if (!all) {
                boolean some = false;
                for (JsonNode q : quantities) {
                    if (q.asLong() < 0 || q.asLong() > MOST) throw new Refused("INVALID");
                    some |= q.asLong() > 0;
                }
                if (!some) throw new Refused("INVALID");
            }
            JsonNode held = open(e);
            Map<String, Long> taken = new HashMap<>();
            for (JsonNode line : held.get("lines")) taken.put(line.get("sku").asText(), line.get("quantity").asLong());
            if (!all) {
                for (Iterator<Map.Entry<String, JsonNode>> it = quantities.fields(); it.hasNext(); ) {
                    Map.Entry<String, JsonNode> q = it.next();
                    if (q.getValue().asLong() > taken.getOrDefault(q.getKey(), 0L)) throw new Refused("MORE_THAN_HELD");
                }
                taken.replaceAll((sku, q) -> quantities.path(sku).asLong(0));
            }
            end(held, "Confirmed", "CONFIRMED", null, taken);
        }

        private void adjust(ObjectNode e) throws Refused {
            long change = e.get("quantity").asLong();
            if (change == 0 || Math.abs(change) > MOST) throw new Refused("INVALID");
            long[] sku = sku(e.get("sku").asText());
            if (sku[0] + change < sku[1]) throw new Refused("BELOW_RESERVED");
            setOnHand(e.get("sku").asText(), sku[0] + change, false);
        }

        private void count(ObjectNode e, long at) throws Refused {
            long onHand = e.get("onHand").asLong();
            if (onHand < 0 || onHand > MOST) throw new Refused("INVALID");
            String name = e.get("sku").asText();
            if (at < sku(name)[2]) throw new Refused("STALE");
            if (sku(name)[1] > onHand) {
                List<String> holding = new ArrayList<>();
                try (KeyValueIterator<String, byte[]> it = holds.prefixScan(key(pool, name), new StringSerializer())) {
                    it.forEachRemaining(hold -> holding.add(new String(hold.value, StandardCharsets.UTF_8)));
                }
                for (int n = holding.size() - 1; n >= 0 && sku(name)[1] > onHand; n--) {
                    end(read(reservations.get(key(pool, holding.get(n)))), "Cancelled", "CANCELLED", "SHORTAGE", null);
                }
            }
            setOnHand(name, onHand, true);
        }

        private void setOnHand(String name, long onHand, boolean counted) {
            long[] sku = sku(name);
            ObjectNode event = JSON.createObjectNode().put("type", "Adjusted").put("pool", pool).put("sku", name)
                .put("quantity", onHand - sku[0]).put("counted", counted).put("onHand", onHand).put("reserved", sku[1]);
            sku[0] = onHand;
            sku[2] = now;
            put(name, sku);
            forward("events", pool, event);
            level(name, sku);
        }

        private JsonNode open(ObjectNode e) throws Refused {
            String id = e.get("reservationId").asText();
            JsonNode held = read(reservations.get(key(pool, id)));
            if (held != null) return held;
            String status = endedStatus(id);
            throw new Refused(status == null ? "NOT_FOUND" : "ALREADY_" + status);
        }

        private String endedStatus(String id) {
            JsonNode its = read(ended.get(key(pool, id)));
            return its == null || now >= its.get("at").asLong() + RESERVATION_RETENTION ? null : its.get("status").asText();
        }

        private void end(JsonNode held, String event, String status, String reason, Map<String, Long> taken) {
            ArrayNode told = JSON.createArrayNode();
            for (JsonNode line : held.get("lines")) {
                String name = line.get("sku").asText();
                long[] sku = sku(name);
                long confirmed = taken == null ? 0 : taken.get(name);
                sku[0] -= confirmed;
                sku[1] -= line.get("quantity").asLong();
                if (confirmed > 0) sku[2] = now;
                put(name, sku);
                holds.delete(key(pool, name) + String.format("%016d", line.get("number").asLong()));
                tell(told, name, taken == null ? line.get("quantity").asLong() : confirmed, sku);
            }
            String key = key(pool, held.get("id").asText());
            reservations.delete(key);
            ended.put(key, bytes(JSON.createObjectNode().put("status", status).put("at", now)));
            schedule(now + RESERVATION_RETENTION, 'e', key);
            event(event, held, reason, told);
        }

        // What is put out

        private void tell(ArrayNode told, String name, long quantity, long[] sku) {
            told.addObject().put("sku", name).put("quantity", quantity).put("onHand", sku[0]).put("reserved", sku[1]);
        }

        private void event(String type, JsonNode held, String reason, ArrayNode lines) {
            ObjectNode event = JSON.createObjectNode().put("type", type).put("pool", pool).put("reservationId", held.get("id").asText());
            event.set("orderId", held.get("orderId"));
            event.put("reason", reason).set("lines", lines);
            forward("events", pool, event);
            for (JsonNode line : lines) {
                level(line.get("sku").asText(), new long[] {line.get("onHand").asLong(), line.get("reserved").asLong()});
            }
        }

        private void level(String name, long[] sku) {
            ObjectNode level = JSON.createObjectNode().put("type", "StockLevel").put("pool", pool).put("sku", name)
                .put("onHand", sku[0]).put("reserved", sku[1]).put("available", sku[0] - sku[1]);
            forward("levels", JSON.createArrayNode().add(pool).add(name).toString(), level);
        }

        private ObjectNode accepted(ObjectNode e, ArrayNode lines, ArrayNode missing) { return reply(e, "ACCEPTED", null, lines, missing); }

        private ObjectNode rejected(ObjectNode e, Refused r) { return reply(e, "REJECTED", r.getMessage(), JSON.createArrayNode(), r.shortLines); }

        private ObjectNode reply(ObjectNode e, String status, String reason, ArrayNode lines, ArrayNode missing) {
            ObjectNode reply = JSON.createObjectNode().put("type", "StockReply").put("commandId", e.get("commandId").asText())
                .put("pool", pool).put("status", status).put("reason", reason);
            reply.set("reservationId", e.get("reservationId"));
            reply.set("lines", lines);
            reply.set("short", missing);
            return reply;
        }

        private void reply(ObjectNode reply) { forward("replies", pool, reply); }

        private void forward(String sink, String key, ObjectNode value) { context.forward(new Record<>(key, bytes(value), Math.max(0, now)), sink); }

        // State

        private long[] sku(String name) {
            byte[] its = skus.get(key(pool, name));
            long[] sku = {0, 0, Long.MIN_VALUE, 0};
            if (its != null) java.nio.ByteBuffer.wrap(its).asLongBuffer().get(sku);
            return sku;
        }

        private void put(String name, long[] sku) {
            java.nio.ByteBuffer bytes = java.nio.ByteBuffer.allocate(32);
            bytes.asLongBuffer().put(sku);
            skus.put(key(pool, name), bytes.array());
        }

        private void schedule(long when, char kind, String key) {
            due.put(timeKey(when) + kind + String.format("%016x", number++), key.getBytes(StandardCharsets.UTF_8));
        }

        /** In the order of the times: hexadecimal, with an offset so that it sorts. */
        private static String timeKey(long when) { return String.format("%016x", when + (1L << 50)); }

        private static long decode(long coded) { return coded - (1L << 50); }

        private static String key(String pool, String rest) { return pool.length() + ":" + pool + ":" + rest.length() + ":" + rest + ":"; }

        private static long time(JsonNode time) { return time.isTextual() ? Instant.parse(time.asText()).toEpochMilli() : time.asLong(); }

        private static JsonNode read(byte[] value) {
            try {
                return value == null ? null : JSON.readTree(value);
            } catch (java.io.IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }

        private static byte[] bytes(JsonNode value) {
            try {
                return JSON.writeValueAsBytes(value);
            } catch (com.fasterxml.jackson.core.JsonProcessingException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        String prefix = System.getenv().getOrDefault("PREFIX", "");
        Properties c = new Properties();
        c.put(StreamsConfig.APPLICATION_ID_CONFIG, System.getenv("APP"));
        c.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("BOOTSTRAP"));
        c.put(StreamsConfig.STATE_DIR_CONFIG, System.getenv("STATE_DIR"));
        c.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        c.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, System.getenv().getOrDefault("THREADS", "2"));
        c.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, System.getenv().getOrDefault("COMMIT_MS", "1000"));
        c.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        c.put("auto.offset.reset", "earliest");
        Topology t = new Topology();
        t.addSource("in", new StringDeserializer(), new ByteArrayDeserializer(), prefix + "stock-commands");
        t.addProcessor("ledger", Ledger::new, "in");
        for (String store : List.of("skus", "reservations", "ended", "holds", "known", "due")) {
            t.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(store), Serdes.String(), Serdes.ByteArray()), "ledger");
        }
        t.addSink("events", prefix + "stock-events", new StringSerializer(), new ByteArraySerializer(), "ledger");
        t.addSink("replies", prefix + "stock-replies", new StringSerializer(), new ByteArraySerializer(), "ledger");
        t.addSink("levels", prefix + "stock", new StringSerializer(), new ByteArraySerializer(), "ledger");
        KafkaStreams streams = new KafkaStreams(t, c);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        Thread.currentThread().join();
    }
}
