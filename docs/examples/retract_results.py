"""Retract each result that names a source: `retract_results.py BROKERS SOURCE TOPIC…`."""

import json
import sys

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from inorder.contract import retraction_headers


def results_of(brokers, topic):
    """Yield the key, value and partition of each record that the topic has now."""
    settings = {"bootstrap.servers": brokers, "group.id": "retracts", "enable.partition.eof": True}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    unread = set(consumer.list_topics(topic).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])
    while unread:
        record = consumer.poll(1.0)
        if record is None:
            continue
        if record.error() is None:
            yield record.key(), record.value(), record.partition()
        elif record.error().code() == KafkaError._PARTITION_EOF:
            unread.discard(record.partition())
        else:
            raise SystemExit(str(record.error()))
    consumer.close()


def main(brokers, source, *topics):
    producer = Producer({"bootstrap.servers": brokers})
    for topic in topics:
        newest = {}
        for key, value, partition in results_of(brokers, topic):
            newest[key] = (json.loads(value) if value else {}, partition)
        for key, (result, partition) in newest.items():
            if json.dumps(source) in json.dumps(result):
                gone = {**result, "op": "retract", "revision": result["revision"] + 1}
                producer.produce(topic, None, key, partition, headers=retraction_headers(gone))
                print(f"{topic}: {key.decode()} is retracted")
    producer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
