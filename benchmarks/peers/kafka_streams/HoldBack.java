import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * Puts the records of each source in order by their numbers on Kafka Streams, exactly once.
 *
 * <p>A record whose number is not the next of its source is held in a store until the numbers
 * before it have come, or until {@code PATIENCE_MS} have passed since the first was held, or since
 * some could go; then the numbers that are missing are given up. Time is that of the records, and
 * while none come it goes on from the last one's. What comes below the next number is dropped: it is a copy, or late. Both stores lie in RocksDB behind Kafka Streams' cache and
 * have a changelog, so a killed process goes on where its last commit stands. There is no merge of
 * the sources and no clock, so this does less than the stage it stands beside.
 *
 * <pre>java -cp JARS HoldBack BROKERS APPLICATION INPUT OUTPUT STATE_FOLDER</pre>
 */
public final class HoldBack implements Processor<byte[], byte[], byte[], byte[]> {
  private static final String PLACES = "places";
  private static final String HELD = "held";
  private static final long PATIENCE_MS = 100;
  private static final long TICK_MS = 50;

  private ProcessorContext<byte[], byte[]> context;
  private KeyValueStore<Bytes, byte[]> places;
  private KeyValueStore<Bytes, byte[]> held;
  private long nowMs;
  private long heardMs;

  /** Where a source stands: the next number, how many are held, and since when (ms). */
  private record Place(long next, long count, long sinceMs) {
    static final Place FIRST = new Place(0, 0, 0);

    static Place of(byte[] bytes) {
      if (bytes == null) {
        return FIRST;
      }
      ByteBuffer read = ByteBuffer.wrap(bytes);
      return new Place(read.getLong(), read.getLong(), read.getLong());
    }

    byte[] bytes() {
      return ByteBuffer.allocate(24).putLong(next).putLong(count).putLong(sinceMs).array();
    }
  }

  @Override
  public void init(ProcessorContext<byte[], byte[]> given) {
    context = given;
    places = given.getStateStore(PLACES);
    held = given.getStateStore(HELD);
    Duration tick = Duration.ofMillis(TICK_MS);
    given.schedule(tick, PunctuationType.WALL_CLOCK_TIME, this::tick);
  }

  @Override
  public void process(Record<byte[], byte[]> record) {
    nowMs = Math.max(nowMs, record.timestamp());
    heardMs = System.currentTimeMillis();
    Header named = record.headers().lastHeader("sourceId");
    byte[] source = named == null ? record.key() : named.value();
    long number =
        named == null
            ? numberIn(new String(record.value(), StandardCharsets.UTF_8))
            : Long.parseLong(
                new String(
                    record.headers().lastHeader("seqNum").value(), StandardCharsets.US_ASCII));
    Bytes key = Bytes.wrap(source);
    Place place = Place.of(places.get(key));
    if (number < place.next) {
      return;
    }
    if (number == place.next) {
      context.forward(record);
      place = run(source, new Place(number + 1, place.count, place.sinceMs));
    } else if (held.putIfAbsent(entry(source, number), written(record)) == null) {
      long sinceMs = place.count == 0 ? nowMs : place.sinceMs;
      place = new Place(place.next, place.count + 1, sinceMs);
    }
    places.put(key, patient(source, place).bytes());
  }

  /** The number of a record without headers: of {@code "n":} in its JSON, found without a parser. */
  private static long numberIn(String value) {
    int from = value.indexOf("\"n\":") + 4;
    int to = from;
    while (Character.isDigit(value.charAt(to))) {
      to++;
    }
    return Long.parseLong(value, from, to, 10);
  }

  private Place patient(byte[] source, Place place) {
    if (place.count == 0 || nowMs - place.sinceMs < PATIENCE_MS) {
      return place;
    }
    return run(source, new Place(lowest(source), place.count, 0));
  }

  /** Sources that fell silent behind a hole. */
  private void tick(long wallMs) {
    if (heardMs == 0 || wallMs - heardMs < TICK_MS) {
      return;
    }
    nowMs += wallMs - heardMs;
    heardMs = wallMs;
    List<KeyValue<Bytes, Place>> overdue = new ArrayList<>();
    try (KeyValueIterator<Bytes, byte[]> all = places.all()) {
      while (all.hasNext()) {
        KeyValue<Bytes, byte[]> each = all.next();
        Place place = Place.of(each.value);
        if (place.count > 0 && nowMs - place.sinceMs >= PATIENCE_MS) {
          overdue.add(KeyValue.pair(each.key, place));
        }
      }
    }
    for (KeyValue<Bytes, Place> each : overdue) {
      places.put(each.key, patient(each.key.get(), each.value).bytes());
    }
  }

  /** Lets go of what is held from the next number on, without a hole. */
  private Place run(byte[] source, Place place) {
    long next = place.next;
    long count = place.count;
    while (count > 0) {
      byte[] found = held.delete(entry(source, next));
      if (found == null) {
        break;
      }
      context.forward(read(found));
      next++;
      count--;
    }
    return new Place(next, count, next == place.next ? place.sinceMs : nowMs);
  }

  private long lowest(byte[] source) {
    try (KeyValueIterator<Bytes, byte[]> found =
        held.range(entry(source, 0), entry(source, Long.MAX_VALUE))) {
      KeyValue<Bytes, byte[]> first = found.next();
      return ByteBuffer.wrap(first.key.get()).getLong(source.length + 1);
    }
  }

  private static Bytes entry(byte[] source, long number) {
    ByteBuffer key = ByteBuffer.allocate(source.length + 1 + Long.BYTES);
    return Bytes.wrap(key.put(source).put((byte) 0).putLong(number).array());
  }

  private static byte[] written(Record<byte[], byte[]> record) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(512);
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeLong(record.timestamp());
      write(out, record.key());
      write(out, record.value());
      Header[] headers = record.headers().toArray();
      out.writeInt(headers.length);
      for (Header header : headers) {
        out.writeUTF(header.key());
        write(out, header.value());
      }
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
    return bytes.toByteArray();
  }

  private static Record<byte[], byte[]> read(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      long timestampMs = in.readLong();
      byte[] key = readBytes(in);
      byte[] value = readBytes(in);
      Headers headers = new RecordHeaders();
      for (int left = in.readInt(); left > 0; left--) {
        headers.add(in.readUTF(), readBytes(in));
      }
      return new Record<>(key, value, timestampMs, headers);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  private static void write(DataOutputStream out, byte[] bytes) throws IOException {
    out.writeInt(bytes == null ? -1 : bytes.length);
    if (bytes != null) {
      out.write(bytes);
    }
  }

  private static byte[] readBytes(DataInputStream in) throws IOException {
    int length = in.readInt();
    return length < 0 ? null : in.readNBytes(length);
  }

  private static StoreBuilder<KeyValueStore<Bytes, byte[]>> store(String name) {
    return Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore(name), Serdes.Bytes(), Serdes.ByteArray())
        .withCachingEnabled()
        .withLoggingEnabled(Map.of());
  }

  public static void main(String[] arguments) throws InterruptedException {
    Properties settings = new Properties();
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
    settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
    settings.put(StreamsConfig.producerPrefix("compression.type"), "snappy");

    Topology topology = new Topology();
    topology.addSource(
        "raw", new ByteArrayDeserializer(), new ByteArrayDeserializer(), arguments[2]);
    topology.addProcessor("hold-back", HoldBack::new, "raw");
    topology.addStateStore(store(PLACES), "hold-back");
    topology.addStateStore(store(HELD), "hold-back");
    topology.addSink(
        "ordered", arguments[3], new ByteArraySerializer(), new ByteArraySerializer(), "hold-back");

    KafkaStreams streams = new KafkaStreams(topology, settings);
    CountDownLatch stopped = new CountDownLatch(1);
    streams.setStateListener(
        (now, before) -> {
          if (now == KafkaStreams.State.ERROR) {
            stopped.countDown();
          }
        });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
    streams.start();
    stopped.await();
    System.exit(1);
  }
}
