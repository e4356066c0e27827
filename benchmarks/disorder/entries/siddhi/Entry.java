// Four of the queries in Siddhi's language: java Entry RULE MOST_MS RECORDS QUERY
//
// RULE is kslack or akslack of Siddhi's own extension, which puts events in order by their time and
// waits as long as it has seen them late, MOST_MS at most (0: no bound). What comes later goes into
// the windows that are open then, as none takes anything back: told to drop it, the extension of
// this version learns no wait. Windows end with an event behind them. Times are microseconds. Copies
// are dropped by the numbers that each source has sent.

import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.io.BufferedReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;

public final class Entry {
    private static final String RECORDS =
        "define stream Records (t long, k long, person long, opened int, price long);";
    private static final long HOUR_US = 3_600_000_000L;
    private static final PrintStream out =
        new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static long atUs;

    /**
     * The windows of `sizeUs` that begin at `offsetUs` behind multiples of it, and what they select;
     * without a size the condition of a sequence, and what it selects.
     */
    private record Part(long sizeUs, long offsetUs, String select) {
        String text(int number) {
            if (sizeUs == 0) {
                return "partition with (k of Ordered) begin from every low = Ordered, high = Ordered[" + select
                    + " insert into Answers" + number + "; end;";
            }
            return "from Ordered#window.externalTimeBatch(t, " + sizeUs + "L, " + offsetUs + "L) select "
                + select + " insert into Answers" + number + ";";
        }

        long startUs(long timeUs) {
            return sizeUs == 0 ? timeUs : timeUs - Math.floorMod(timeUs - offsetUs, sizeUs);
        }
    }

    private static Part[] parts(String query) {
        String most = "max(t) as t, k, count() as n group by k order by n desc, k asc limit 1";
        String both = "max(t) as t, person, sum(opened) as n, count() as all group by person"
            + " having n > 0 and all > n";
        String leap = "price >= 10 * low.price and person != low.person and t - low.t <= 100000L]"
            + " select low.t as t, low.k as k, low.price as before, high.price as after";
        return switch (query) {
            case "leap" -> new Part[] {new Part(0, 0, leap)};
            case "q7" -> new Part[] {new Part(1_000_000, 0, "max(t) as t, max(price) as price")};
            case "q8" -> new Part[] {new Part(2_000_000, 0, both)};
            default -> new Part[] {
                new Part(2_000_000, 0, most), new Part(2_000_000, 500_000, most),
                new Part(2_000_000, 1_000_000, most), new Part(2_000_000, 1_500_000, most)
            };
        };
    }

    private static void answer(Part part, String query, Object[] row) {
        String key = query.equals("q8") || query.equals("leap") ? row[1].toString() : "";
        Object value = switch (query) {
            case "q7" -> row[1];
            case "q8" -> row[2];
            case "leap" -> row[2] + ":" + row[3];
            default -> row[1] + ":" + row[2];
        };
        out.println(atUs + "," + part.startUs((Long) row[0]) + "," + key + "," + value);
    }

    private static Object[] event(String[] row) {
        boolean opens = row[4].equals("auction");
        long person = Long.parseLong(row[4].equals("person") ? row[5] : row[6]);
        long price = row[7].isEmpty() ? 0 : Long.parseLong(row[7]);
        return new Object[] {Long.valueOf(row[3]), Long.valueOf(row[5]), person, opens ? 1 : 0, price};
    }

    public static void main(String[] asked) throws Exception {
        String query = asked[3];
        long mostUs = asked[1].equals("0") ? Long.MAX_VALUE : Long.parseLong(asked[1]) * 1_000;
        String rule = asked[0].equals("kslack")
            ? "kslack(t, -1L, " + mostUs + "L, false)"
            : "akslack(t, " + (query.equals("q8") ? "opened" : "price") + ", 10000L, -1L, " + mostUs + "L, false)";
        StringBuilder text = new StringBuilder(RECORDS);
        text.append("from Records#reorder:").append(rule).append(" select * insert into Ordered;");
        Part[] parts = parts(query);
        for (int number = 0; number < parts.length; number++) {
            text.append(parts[number].text(number));
        }
        SiddhiManager manager = new SiddhiManager();
        SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(text.toString());
        for (int number = 0; number < parts.length; number++) {
            Part part = parts[number];
            runtime.addCallback("Answers" + number, new StreamCallback() {
                @Override
                public void receive(Event[] events) {
                    for (Event each : events) {
                        answer(part, query, each.getData());
                    }
                }
            });
        }
        runtime.start();
        InputHandler input = runtime.getInputHandler("Records");
        Set<String> seen = new HashSet<>();
        Object[] last = null;
        try (BufferedReader lines = Files.newBufferedReader(Path.of(asked[2]))) {
            lines.readLine();
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] row = line.split(",", -1);
                atUs = Long.parseLong(row[0]);
                if (!seen.add(line.substring(line.indexOf(',') + 1)) || row[4].equals("bid") == query.equals("q8")) {
                    continue;
                }
                last = event(row);
                input.send(last);
            }
        }
        // What is open closes by events far behind: one for the order, and one for the windows.
        for (int hours = 1; last != null && hours <= 2; hours++) {
            Object[] end = last.clone();
            end[0] = (Long) last[0] + hours * HOUR_US;
            input.send(end);
        }
        out.flush();
        runtime.shutdown();
        manager.shutdown();
        System.exit(0);
    }
}
