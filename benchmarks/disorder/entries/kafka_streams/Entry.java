// The four queries on Kafka Streams: java Entry GRACE_MS SUPPRESS RECORDS QUERY
//
// In its own TopologyTestDriver, which runs the topology as a stream thread does, without a broker.
// A grace and `suppress` give one answer a window; `emit` in place of `suppress` gives each change.
// Copies are dropped by a store of the numbers that each source has sent.

import java.io.BufferedReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;

public final class Entry {
    private static long atUs;
    private static final Map<String, String> given = new HashMap<>();
    private static final PrintStream out =
        new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private static void answer(long startUs, String key, String value) {
        String place = startUs + "," + key;
        if (!value.equals(given.getOrDefault(place, ""))) {
            given.put(place, value);
            out.println(atUs + "," + place + "," + value);
        }
    }

    // The state of a window as text, `name=count` each, so that the library's own serdes do.
    private static String added(String state, String name, long by, boolean most) {
        Map<String, Long> counts = read(state);
        counts.merge(name, by, most ? Math::max : Long::sum);
        StringBuilder text = new StringBuilder();
        counts.forEach((key, count) -> text.append(key).append('=').append(count).append(' '));
        return text.toString();
    }

    private static Map<String, Long> read(String state) {
        Map<String, Long> counts = new TreeMap<>();
        for (String part : state.split(" ")) {
            int cut = part.indexOf('=');
            if (cut >= 0) {
                counts.put(part.substring(0, cut), Long.valueOf(part.substring(cut + 1)));
            }
        }
        return counts;
    }

    private static String folded(String query, String line, String state) {
        String[] row = line.split(",", -1);
        switch (query) {
            case "q5": return added(state, row[5], 1, false);
            case "q7": return added(state, "price", Long.parseLong(row[7]), true);
            default: return added(state, row[4].equals("person") ? "p" + row[5] : "a" + row[6], 1, false);
        }
    }

    private static void show(String query, long startUs, String state) {
        Map<String, Long> counts = read(state);
        if (query.equals("q7")) {
            answer(startUs, "", counts.get("price").toString());
        } else if (query.equals("q8")) {
            counts.forEach((name, count) -> {
                String person = name.substring(1);
                if (name.charAt(0) == 'a' && counts.containsKey("p" + person)) {
                    answer(startUs, person, count.toString());
                }
            });
        } else {
            String hot = null;
            for (Map.Entry<String, Long> each : counts.entrySet()) {
                long apart = hot == null ? 1 : each.getValue() - counts.get(hot);
                if (apart > 0 || apart == 0 && Long.parseLong(each.getKey()) < Long.parseLong(hot)) {
                    hot = each.getKey();
                }
            }
            answer(startUs, "", hot + ":" + counts.get(hot));
        }
    }

    public static void main(String[] asked) throws Exception {
        Duration grace = Duration.ofSeconds(Long.parseLong(asked[0]));
        boolean suppress = asked[1].equals("suppress");
        String query = asked[3];
        Serde<String> text = Serdes.String();
        // The time unit is the us, which the library calls ms.
        Map<String, Long> firstUs = new HashMap<>();
        TimestampExtractor time = (record, last) ->
            Long.parseLong(record.value().toString().split(",", 5)[3]);
        StreamsBuilder builder = new StreamsBuilder();
        Set<String> seen = new HashSet<>();
        KStream<String, String> records = builder
            .stream("in", Consumed.with(text, text).withTimestampExtractor(time))
            .filter((key, line) -> seen.add(key))
            .filter((key, line) -> line.contains(",bid,") != query.equals("q8"));
        if (query.equals("q11")) {
            KGroupedStream<String, String> bidders =
                records.groupBy((key, line) -> line.split(",", -1)[6], Grouped.with(text, text));
            KTable<Windowed<String>, String> sessions = bidders
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(500), grace))
                .aggregate(
                    () -> "",
                    (key, line, state) -> session(state, "1 " + line.split(",", 5)[3]),
                    (key, one, other) -> session(one, other),
                    Materialized.with(text, text));
            shown(sessions, suppress).foreach((window, state) -> {
                // A session that is merged into another is withdrawn by null, under its bounds.
                String place = window.key() + " " + window.window().start() + " " + window.window().end();
                if (state != null && !state.isEmpty()) {
                    long startUs = Long.parseLong(state.split(" ")[1]);
                    firstUs.put(place, startUs);
                    answer(startUs, window.key(), state.split(" ")[0]);
                } else if (firstUs.containsKey(place)) {
                    withdraw(firstUs.remove(place), window.key());
                }
            });
        } else {
            long lengthUs = query.equals("q7") ? 1_000_000 : 2_000_000;
            long stepUs = query.equals("q5") ? 500_000 : lengthUs;
            TimeWindows windows = TimeWindows
                .ofSizeAndGrace(Duration.ofMillis(lengthUs), grace)
                .advanceBy(Duration.ofMillis(stepUs));
            KTable<Windowed<String>, String> states = records
                .groupBy((key, line) -> "all", Grouped.with(text, text))
                .windowedBy(windows)
                .aggregate(
                    () -> "",
                    (key, line, state) -> folded(query, line, state),
                    Materialized.with(text, text));
            shown(states, suppress).foreach((window, state) -> {
                if (state != null) {
                    show(query, window.window().start(), state);
                }
            });
        }
        run(builder, Path.of(asked[2]), text, suppress);
        out.flush();
    }

    private static void withdraw(long startUs, String key) {
        if (given.remove(startUs + "," + key) != null) {
            out.println(atUs + "," + startUs + "," + key + ",");
        }
    }

    private static String session(String one, String other) {
        if (one.isEmpty() || other.isEmpty()) {
            return one + other;
        }
        String[] a = one.split(" ");
        String[] b = other.split(" ");
        long count = Long.parseLong(a[0]) + Long.parseLong(b[0]);
        return count + " " + Math.min(Long.parseLong(a[1]), Long.parseLong(b[1]));
    }

    private static KStream<Windowed<String>, String> shown(
            KTable<Windowed<String>, String> table, boolean suppress) {
        return suppress
            ? table.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream()
            : table.toStream();
    }

    private static void run(StreamsBuilder builder, Path path, Serde<String> text, boolean suppress)
            throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "disorder");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("disorder").toString());
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings);
                BufferedReader lines = Files.newBufferedReader(path)) {
            var input = driver.createInputTopic("in", text.serializer(), text.serializer());
            lines.readLine();
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] row = line.split(",", 4);
                atUs = Long.parseLong(row[0]);
                input.pipeInput(row[1] + "/" + row[2], line);
            }
            if (suppress) {
                // What is open is answered when time goes on, and at the end of a file none does.
                String later = "," + (atUs + 3_600_000_000L) + ",";
                input.pipeInput("end/0", "0,end,0" + later + "bid,0,0,0");
                input.pipeInput("end/1", "0,end,1" + later + "person,0,0,0");
            }
        }
    }
}
