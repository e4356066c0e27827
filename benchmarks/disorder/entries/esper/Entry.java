// Four of the queries in Esper's language: java Entry WAIT_MS RECORDS QUERY
//
// Esper takes events as they come. So this program puts them in order by a queue, from which an event
// leaves when one is there that is WAIT_MS younger; what comes later goes into the windows that are
// open then, as none takes anything back. Windows end with an event behind them. Times are
// microseconds. Copies are dropped by the numbers that each source has sent.

import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.io.BufferedReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashSet;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.concurrent.TimeUnit;

public final class Entry {
    private static final long HOUR_US = 3_600_000_000L;
    private static final PrintStream out =
        new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static long atUs;

    /**
     * The windows of `sizeUs` that begin at `offsetUs` behind multiples of it, and what they select;
     * without a size what a sequence of events is.
     */
    private record Part(long sizeUs, long offsetUs, String select, String rest) {
        String text(int number) {
            if (sizeUs == 0) {
                return "@name('answers" + number + "') select * from Records match_recognize (" + select + ");\n";
            }
            return "@name('answers" + number + "') select " + select + " from Records#ext_timed_batch(t, "
                + sizeUs + " microseconds, " + offsetUs + "L) " + rest + ";\n";
        }

        long startUs(long timeUs) {
            return sizeUs == 0 ? timeUs : timeUs - Math.floorMod(timeUs - offsetUs, sizeUs);
        }
    }

    private static Part[] parts(String query) {
        String counted = "max(t) as t, k as key, count(*) as n";
        String most = "group by k order by count(*) desc, k asc";
        String leap = "partition by k measures A.t as t, A.k as key, A.price as low, B.price as high"
            + " all matches after match skip to next row pattern (A B) define B as B.price >= 10 * A.price"
            + " and B.person != A.person and B.t - A.t <= 100000";
        return switch (query) {
            case "leap" -> new Part[] {new Part(0, 0, leap, "")};
            case "q7" -> new Part[] {
                new Part(1_000_000, 0, "max(t) as t, '' as key, max(price) as n", "")
            };
            case "q8" -> new Part[] {
                new Part(2_000_000, 0, "max(t) as t, person as key, sum(opened) as n",
                    "group by person having sum(opened) > 0 and count(*) > sum(opened)")
            };
            default -> new Part[] {
                new Part(2_000_000, 0, counted, most), new Part(2_000_000, 500_000, counted, most),
                new Part(2_000_000, 1_000_000, counted, most), new Part(2_000_000, 1_500_000, counted, most)
            };
        };
    }

    private static void answer(Part part, boolean isPair, EventBean row) {
        String key = isPair ? "," + row.get("key") + ":" : row.get("key") + ",";
        Object value = part.sizeUs == 0 ? row.get("low") + ":" + row.get("high") : row.get("n");
        out.println(atUs + "," + part.startUs((Long) row.get("t")) + "," + key + value);
    }

    private static Object[] event(String[] row) {
        boolean opens = row[4].equals("auction");
        long person = Long.parseLong(row[4].equals("person") ? row[5] : row[6]);
        return new Object[] {
            Long.valueOf(row[3]), Long.valueOf(row[5]), person, opens ? 1 : 0, Long.valueOf(row[7])
        };
    }

    private static EPRuntime runtime(Part[] parts, boolean isPair) throws Exception {
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType("Records",
            new String[] {"t", "k", "person", "opened", "price"},
            new Object[] {Long.class, Long.class, Long.class, Integer.class, Long.class});
        configuration.getCommon().getTimeSource().setTimeUnit(TimeUnit.MICROSECONDS);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        StringBuilder text = new StringBuilder();
        for (int number = 0; number < parts.length; number++) {
            text.append(parts[number].text(number));
        }
        EPCompiled compiled =
            EPCompilerProvider.getCompiler().compile(text.toString(), new CompilerArguments(configuration));
        EPRuntime runtime = EPRuntimeProvider.getDefaultRuntime(configuration);
        EPDeployment deployed = runtime.getDeploymentService().deploy(compiled);
        for (int number = 0; number < parts.length; number++) {
            Part part = parts[number];
            runtime.getDeploymentService().getStatement(deployed.getDeploymentId(), "answers" + number)
                .addListener((rows, old, statement, source) -> {
                    // "limit 1" behind an order of groups does not compile in this version
                    for (int at = 0; rows != null && at < (isPair ? 1 : rows.length); at++) {
                        answer(part, isPair, rows[at]);
                    }
                });
        }
        return runtime;
    }

    public static void main(String[] asked) throws Exception {
        long waitUs = Long.parseLong(asked[0]) * 1_000;
        String query = asked[2];
        EPRuntime runtime = runtime(parts(query), query.equals("q5"));
        Set<String> seen = new HashSet<>();
        PriorityQueue<Object[]> waiting = new PriorityQueue<>(Comparator.comparingLong(event -> (Long) event[0]));
        long newestUs = Long.MIN_VALUE;
        try (BufferedReader lines = Files.newBufferedReader(Path.of(asked[1]))) {
            lines.readLine();
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] row = line.split(",", -1);
                atUs = Long.parseLong(row[0]);
                if (!seen.add(line.substring(line.indexOf(',') + 1)) || row[4].equals("bid") == query.equals("q8")) {
                    continue;
                }
                Object[] event = event(row);
                newestUs = Math.max(newestUs, (Long) event[0]);
                waiting.add(event);
                while (!waiting.isEmpty() && (Long) waiting.peek()[0] <= newestUs - waitUs) {
                    runtime.getEventService().sendEventObjectArray(waiting.poll(), "Records");
                }
            }
        }
        while (!waiting.isEmpty()) {
            runtime.getEventService().sendEventObjectArray(waiting.poll(), "Records");
        }
        // What is open closes by an event far behind.
        Object[] end = {newestUs + HOUR_US, 0L, 0L, 0, 0L};
        runtime.getEventService().sendEventObjectArray(end, "Records");
        out.flush();
        runtime.destroy();
    }
}
