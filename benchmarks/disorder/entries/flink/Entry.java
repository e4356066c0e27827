// The five queries on Flink's DataStream API and its CEP: java Entry BOUND_MS LATENESS_MS RECORDS QUERY
//
// A local environment with one slot. The watermark is Flink's bounded out-of-orderness, given with
// each record and not every 200 ms of the machine's clock, so that a recording can be replayed; the
// time unit is the us, which Flink calls ms. An answer bears the arrival of the record that moved
// the watermark past its window, or of the late record that changed it. Copies are dropped by the
// numbers that each source has sent.

import java.io.BufferedReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.SourceFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.time.Time;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

@SuppressWarnings({"deprecation", "serial"})
public final class Entry {
    private static final NavigableMap<Long, Long> arrivals = new TreeMap<>();
    private static final Map<String, String> given = new HashMap<>();
    private static final Set<String> seen = new HashSet<>();
    private static final PrintStream out =
        new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static long lastUs;

    private static void answer(long atUs, long startUs, String key, String value) {
        String place = startUs + "," + key;
        if (!value.equals(given.put(place, value))) {
            out.println(atUs + "," + place + "," + value);
        }
    }

    /** The lines of a file. */
    private record Lines(String path) implements SourceFunction<String> {
        @Override
        public void run(SourceContext<String> context) throws Exception {
            try (BufferedReader lines = Files.newBufferedReader(Path.of(path))) {
                lines.readLine();
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    context.collect(line);
                }
            }
        }

        @Override
        public void cancel() {
        }
    }

    /** The largest time less a bound, with each record. */
    private static final class Bounded implements WatermarkGenerator<String> {
        private final long boundUs;
        private long newestUs = Long.MIN_VALUE;

        Bounded(long boundUs) {
            this.boundUs = boundUs;
        }

        @Override
        public void onEvent(String line, long timeUs, WatermarkOutput output) {
            lastUs = Long.parseLong(line.substring(0, line.indexOf(',')));
            if (timeUs > newestUs) {
                newestUs = timeUs;
                synchronized (arrivals) {
                    arrivals.put(timeUs - boundUs - 1, lastUs);
                }
                output.emitWatermark(new Watermark(timeUs - boundUs - 1));
            }
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {
        }
    }

    /** Counts by name, or the highest price; `at` is the arrival of the newest record. */
    private record Folded(String query)
            implements AggregateFunction<String, HashMap<String, Long>, HashMap<String, Long>> {
        @Override
        public HashMap<String, Long> createAccumulator() {
            return new HashMap<>();
        }

        @Override
        public HashMap<String, Long> add(String line, HashMap<String, Long> state) {
            String[] row = line.split(",", -1);
            switch (query) {
                case "q5" -> state.merge(row[5], 1L, Long::sum);
                case "q7" -> state.merge("price", Long.valueOf(row[7]), Math::max);
                case "q8" -> state.merge(row[4].equals("person") ? "p" + row[5] : "a" + row[6], 1L, Long::sum);
                default -> state.merge("bids", 1L, Long::sum);
            }
            state.merge("at", Long.valueOf(row[0]), Math::max);
            return state;
        }

        @Override
        public HashMap<String, Long> getResult(HashMap<String, Long> state) {
            return state;
        }

        @Override
        public HashMap<String, Long> merge(HashMap<String, Long> one, HashMap<String, Long> other) {
            HashMap<String, Long> both = new HashMap<>(one);
            other.forEach((name, count) -> both.merge(name, count, name.equals("at") ? Math::max : Long::sum));
            return both;
        }
    }

    /** Prints what a window holds when it fires. */
    private static final class Shown
            extends ProcessWindowFunction<HashMap<String, Long>, String, String, TimeWindow> {
        private final String query;

        Shown(String query) {
            this.query = query;
        }

        @Override
        public void process(
                String key, Context context, Iterable<HashMap<String, Long>> states, Collector<String> none) {
            Map<String, Long> counts = new HashMap<>(states.iterator().next());
            long atUs = counts.remove("at");
            synchronized (arrivals) {
                Map.Entry<Long, Long> moved = arrivals.ceilingEntry(context.currentWatermark());
                atUs = Math.max(atUs, moved == null ? lastUs : moved.getValue());
            }
            long startUs = context.window().getStart();
            switch (query) {
                case "q7" -> answer(atUs, startUs, "", counts.get("price").toString());
                case "q8" -> {
                    for (Map.Entry<String, Long> each : counts.entrySet()) {
                        String person = each.getKey().substring(1);
                        if (each.getKey().charAt(0) == 'a' && counts.containsKey("p" + person)) {
                            answer(atUs, startUs, person, each.getValue().toString());
                        }
                    }
                }
                case "q11" -> answer(atUs, startUs, key, counts.get("bids").toString());
                default -> {
                    String hot = null;
                    for (Map.Entry<String, Long> each : counts.entrySet()) {
                        long apart = hot == null ? 1 : each.getValue() - counts.get(hot);
                        boolean smaller = hot != null && Long.parseLong(each.getKey()) < Long.parseLong(hot);
                        if (apart > 0 || apart == 0 && smaller) {
                            hot = each.getKey();
                        }
                    }
                    answer(atUs, startUs, "", hot + ":" + counts.get(hot));
                }
            }
        }
    }

    private static WindowAssigner<Object, TimeWindow> windows(String query) {
        return switch (query) {
            case "q5" -> SlidingEventTimeWindows.of(Time.milliseconds(2_000_000), Time.milliseconds(500_000));
            case "q7" -> SlidingEventTimeWindows.of(Time.milliseconds(1_000_000), Time.milliseconds(1_000_000));
            case "q8" -> SlidingEventTimeWindows.of(Time.milliseconds(2_000_000), Time.milliseconds(2_000_000));
            default -> EventTimeSessionWindows.withGap(Time.milliseconds(500_000));
        };
    }

    /** A bid of ten times the one right before it, by another bidder. */
    private static final class Higher extends IterativeCondition<String> {
        @Override
        public boolean filter(String line, Context<String> context) throws Exception {
            String[] high = line.split(",", -1);
            String[] low = context.getEventsForPattern("low").iterator().next().split(",", -1);
            return Long.parseLong(high[7]) >= 10 * Long.parseLong(low[7]) && !high[6].equals(low[6]);
        }
    }

    /** Prints a match when the watermark has reached its end. */
    private static final class Leap extends PatternProcessFunction<String, String> {
        @Override
        public void processMatch(Map<String, List<String>> match, Context context, Collector<String> none) {
            String[] low = match.get("low").get(0).split(",", -1);
            String[] high = match.get("high").get(0).split(",", -1);
            Map.Entry<Long, Long> moved;
            synchronized (arrivals) {
                moved = arrivals.ceilingEntry(Long.parseLong(high[3]));
            }
            long atUs = moved == null ? lastUs : moved.getValue();
            answer(atUs, Long.parseLong(low[3]), low[5], low[7] + ":" + high[7]);
        }
    }

    private static Pattern<String, String> leap() {
        return Pattern.<String>begin("low", AfterMatchSkipStrategy.noSkip())
            .next("high").where(new Higher()).within(Duration.ofMillis(100_000));
    }

    public static void main(String[] asked) throws Exception {
        long boundUs = Long.parseLong(asked[0]) * 1_000;
        long latenessUs = Long.parseLong(asked[1]) * 1_000;
        String query = asked[3];
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.getConfig().enableObjectReuse();
        WatermarkStrategy<String> strategy = WatermarkStrategy
            .<String>forGenerator(context -> new Bounded(boundUs))
            .withTimestampAssigner((line, known) -> Long.parseLong(line.split(",", 5)[3]));
        KeySelector<String, String> key =
            query.equals("q11") ? line -> line.split(",", -1)[6] : line -> "all";
        DataStream<String> records = environment
            .addSource(new Lines(asked[2]))
            .assignTimestampsAndWatermarks(strategy)
            .filter(line -> seen.add(line.substring(line.indexOf(',') + 1)))
            .filter(line -> line.contains(",bid,") != query.equals("q8"));
        if (query.equals("leap")) {
            CEP.pattern(records.keyBy(line -> line.split(",", -1)[5]), leap())
                .process(new Leap())
                .sinkTo(new DiscardingSink<>());
            environment.execute();
            out.flush();
            return;
        }
        records
            .keyBy(key)
            .window(windows(query))
            .allowedLateness(Time.milliseconds(latenessUs))
            .aggregate(new Folded(query), new Shown(query))
            .sinkTo(new DiscardingSink<>());
        environment.execute();
        out.flush();
    }
}
